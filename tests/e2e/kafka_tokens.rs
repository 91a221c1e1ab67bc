//! Tokens that outboxd reads itself, from a file that rotates or from a command, and a broker that validates them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use outboxd::internals::throwaway::unused_port;

use crate::support::http::get_until;
use crate::support::kafka::Kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::postgres18;
use crate::support::relay::{Config, Relay, with};
use crate::support::secure_kafka::{Door, Secure, USER, secure};
use crate::support::wait::{DEADLINE, let_pass};
use crate::support::watcher::Watcher;

const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_secs(4);
const ENDPOINT: &str = "producer.sasl.oauthbearer.token.endpoint.url";
const COMMAND: &str = "outboxd.kafka.token.command";

/// A database whose events go to the shared broker, and a folder for tokens.
struct Guarded {
    secure: &'static Secure,
    files: Watcher,
    db: Outbox,
}

impl Guarded {
    fn new() -> Self {
        let files = Watcher::new("outboxd-tokens-");
        Self { secure: secure(), files, db: Outbox::create(postgres18()) }
    }

    fn kafka(&self) -> &Kafka {
        &self.secure.broker.kafka
    }

    fn config(&self, settings: &[(&str, &str)]) -> Config {
        let bootstrap = self.secure.broker.bootstrap(Door::SignedTokens, "127.0.0.1");
        let login = [
            ("bootstrap.servers", bootstrap.as_str()),
            ("producer.security.protocol", "SASL_PLAINTEXT"),
            ("producer.sasl.mechanism", "OAUTHBEARER"),
        ];
        with(with(self.db.config(self.kafka()), &login), settings)
    }

    fn write_token(&self, lifetime: Duration) -> String {
        self.files.replace("token", &self.secure.keys.token(USER, lifetime))
    }

    fn check(&self, config: &Config) -> String {
        let file = self.files.replace("config.json", &serde_json::to_string(config).unwrap());
        let mut check = Relay::command_with(&["check", "-c", &file], &[]);
        check.wait_for_exit(DEADLINE);
        check.stdout() + &check.stderr()
    }
}

#[test]
fn tokens_of_a_file_that_rotates_lose_nothing() {
    let guarded = Guarded::new();
    let url = format!("file://{}", guarded.write_token(SHORT));
    rotate(&guarded, &[(ENDPOINT, &url)]);
}

#[test]
fn tokens_of_a_command_lose_nothing() {
    let guarded = Guarded::new();
    let command = format!("cat '{}'", guarded.write_token(SHORT));
    rotate(&guarded, &[(COMMAND, &command)]);
}

/// Writes a token that lives 4 s every 2 s, under load: for `OUTBOXD_ROTATION_SECONDS`, 12 without it.
fn rotate(guarded: &Guarded, settings: &[(&str, &str)]) {
    let seconds =
        std::env::var("OUTBOXD_ROTATION_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    let (db, over) = (&guarded.db, AtomicBool::new(false));
    let sent = thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                guarded.write_token(SHORT);
                let_pass(SHORT / 2);
            }
        });
        let mut relay = Relay::start(&guarded.config(settings));
        db.wait_until_streaming();
        let (start, mut sent) = (Instant::now(), 0_usize);
        while start.elapsed() < Duration::from_secs(seconds) {
            let events = [(); 20].map(|()| Event::new("order", "o-1", "OrderCreated", "{}"));
            db.insert(&events);
            sent += events.len();
            let_pass(Duration::from_millis(20));
        }
        db.wait_until_confirmed();
        assert!(relay.is_running(), "0 restarts: {}", relay.stderr());
        over.store(true, Ordering::Relaxed);
        assert_eq!(relay.stop(), 0);
        sent
    });
    let records = guarded.kafka().read(&db.topic("order"), sent);
    let ids: BTreeSet<_> = records.iter().map(|record| record.header("id").to_owned()).collect();
    println!("{sent} events, {} records, {} ids", records.len(), ids.len());
    assert_eq!((records.len(), ids.len()), (sent, sent), "0 lost, 0 twice");
}

/// The producer of transactions, the readers of states and ends, and the writers of positions.
#[test]
fn every_client_gets_a_token() {
    let guarded = Guarded::new();
    let url = format!("file://{}", guarded.write_token(LONG));
    let db = &guarded.db;
    let state = format!("state-{}", db.name());
    let position = format!("position-{}", db.name());
    for topic in [&state, &position] {
        guarded.kafka().create_topic(topic, 1, &[]);
    }
    let dedupe = [
        (ENDPOINT, url.as_str()),
        ("outboxd.delivery.guarantee", "tail_dedupe"),
        ("outboxd.position.topic", &position),
    ];
    let exactly_once = [
        (ENDPOINT, url.as_str()),
        ("outboxd.delivery.guarantee", "exactly_once"),
        ("outboxd.exactly.once.state.topic", &state),
    ];
    for (number, settings) in [&dedupe[..], &dedupe[..], &exactly_once[..]].into_iter().enumerate() {
        let relay = Relay::start(&guarded.config(settings));
        db.wait_until_streaming();
        db.insert(&[Event::new("order", "o-1", "OrderCreated", "{}")]);
        guarded.kafka().read(&db.topic("order"), number + 1);
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0, "{settings:?}");
    }
    let said = guarded.check(&guarded.config(&dedupe));
    assert!(said.contains(&format!("by a token of {ENDPOINT} for \"relay\", which expires at ")), "{said}");
}

#[test]
fn a_source_of_tokens_that_fails_is_named_and_asked_again() {
    let guarded = Guarded::new();
    let token = guarded.secure.keys.token(USER, SHORT);
    let script = guarded.files.replace("print", &format!("echo {token}"));
    let command = format!("sh '{script}'");
    let http = unused_port().unwrap();
    let settings = [
        (COMMAND, command.as_str()),
        ("outboxd.kafka.token.timeout.ms", "500"),
        ("outboxd.startup.timeout.ms", "30000"),
    ];
    for (text, reason) in [
        ("sleep 600", "did not answer within"),
        ("echo 'no such role, token=canarysecond' >&2; exit 3", "exit status: 3"),
        ("echo canarysecond; echo canarysecond", "more than one line"),
        ("echo canarysecond", "authentication"),
    ] {
        guarded.files.replace("print", text);
        let mut relay = Relay::start_with(&guarded.config(&settings), &["--http", &http.to_string()], &[]);
        let page = get_until(http, "/readyz", reason, |page| page.body.to_lowercase().contains(reason));
        assert_eq!(page.code, 503);
        assert!(!page.body.contains("canarysecond"), "{}", page.body);
        guarded.files.replace("print", &format!("echo {}", guarded.secure.keys.token(USER, LONG)));
        get_until(http, "/readyz", "is ready again", |page| page.code == 200);
        assert!(relay.is_running());
        let said = relay.stderr();
        assert!(!said.contains("canarysecond"), "{said}");
        assert_eq!(relay.stop(), 0);
    }
}

/// librdkafka's binding never requests a token for an administrator.
#[test]
fn topics_are_created_and_checked_with_a_token() {
    let guarded = Guarded::new();
    let db = &guarded.db;
    let url = format!("file://{}", guarded.write_token(LONG));
    let position = format!("position-{}", db.name());
    let config = guarded.config(&[
        (ENDPOINT, &url),
        ("outboxd.position.topic", &position),
        ("topic.creation.default.partitions", "3"),
        ("topic.creation.default.replication.factor", "1"),
        ("topic.creation.default.retention.ms", "3600000"),
    ]);
    let checked = guarded.check(&config);
    let found = format!("topic {position:?} of the positions does not exist yet; run makes it");
    assert!(checked.contains(&found), "{checked}");
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    db.insert(&[Event::new("order", "o-1", "OrderCreated", "{}")]);
    guarded.kafka().read(&db.topic("order"), 1);
    db.wait_until_confirmed();
    let said = relay.stderr();
    assert_eq!(relay.stop(), 0);
    assert!(said.contains("created the topic for positions"), "{said}");
    assert!(said.contains("created a topic by topic.creation"), "{said}");
}
