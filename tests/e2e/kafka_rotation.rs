//! Passwords and certificates of Kafka that change while outboxd runs: nothing is lost, nothing is sent twice, and no process ends.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use openssl::pkcs12::Pkcs12;
use openssl::pkey::PKey;
use openssl::x509::X509;

use crate::support::certificate::Authority;
use crate::support::http::get_until;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::postgres18;
use crate::support::relay::{Config, Relay, with};
use crate::support::secure_kafka::{Door, Secure, secure};
use crate::support::wait::{DEADLINE, eventually, let_pass};
use crate::support::watcher::Watcher;
use outboxd::internals::throwaway::unused_port;

/// Rotations without `OUTBOXD_ROTATION_SECONDS`, and the least with it.
const ROTATIONS: usize = 3;
const CHANGED: &str = "the login at Kafka has changed";

/// A database whose events go to the shared broker, and a folder for secrets.
struct Guarded {
    secure: &'static Secure,
    files: Watcher,
    db: Outbox,
}

impl Guarded {
    fn new() -> Self {
        Self { secure: secure(), files: Watcher::new("outboxd-rotation-"), db: Outbox::create(postgres18()) }
    }

    fn config(&self, door: Door, settings: &[(&str, &str)]) -> Config {
        let bootstrap = self.secure.broker.bootstrap(door, "127.0.0.1");
        let position = format!("position-{}", self.db.name());
        let ours = [("bootstrap.servers", bootstrap.as_str()), ("outboxd.position.topic", &position)];
        with(with(self.db.config(&self.secure.broker.kafka), &ours), settings)
    }

    /// Rotates under load, for `OUTBOXD_ROTATION_SECONDS` at least, and checks that each event is there once.
    fn rotate(&self, config: &Config, mut rotation: impl FnMut(usize, &Relay)) {
        let seconds = std::env::var("OUTBOXD_ROTATION_SECONDS").ok().and_then(|text| text.parse().ok());
        let (start, least) = (Instant::now(), Duration::from_secs(seconds.unwrap_or(0)));
        let (db, over) = (&self.db, AtomicBool::new(false));
        let mut relay = Relay::start(config);
        db.wait_until_streaming();
        let sent = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut sent = 0;
                while !over.load(Ordering::Relaxed) {
                    db.insert(&[(); 5].map(|()| Event::new("order", "o-1", "OrderCreated", "{}")));
                    sent += 5;
                    let_pass(Duration::from_millis(20));
                }
                sent
            });
            let goes_on = |number: &usize| *number <= ROTATIONS || start.elapsed() < least;
            for number in (1..).take_while(goes_on) {
                rotation(number, &relay);
                let changes = || relay.stderr().matches(CHANGED).count();
                eventually(DEADLINE, "the change is noticed", || changes() >= number);
                db.wait_until_streaming();
                db.wait_until_confirmed_to(db.current_wal_lsn(), DEADLINE);
            }
            over.store(true, Ordering::Relaxed);
            writer.join().unwrap()
        });
        db.wait_until_confirmed();
        assert!(relay.is_running(), "0 restarts: {}", relay.stderr());
        let said = relay.stderr();
        assert_eq!(relay.stop(), 0, "{said}");
        let records = self.secure.broker.kafka.read(&db.topic("order"), sent);
        let ids: BTreeSet<_> = records.iter().map(|record| record.header("id").to_owned()).collect();
        let rotations = said.matches(CHANGED).count();
        println!("{rotations} rotations, {sent} events, {} records, {} ids", records.len(), ids.len());
        assert_eq!((records.len(), ids.len()), (sent, sent), "0 lost, 0 twice: {said}");
    }
}

/// The broker wants the password again every few seconds, so that it refuses the relay before the file has the new one.
#[test]
fn a_password_that_changes_in_its_file_is_used() {
    let guarded = Guarded::new();
    let user = format!("user-{}", guarded.db.name());
    let password = |number: usize| format!("canary-{number}");
    guarded.secure.broker.set_scram(&user, &password(0));
    guarded.files.replace("password", &password(0));
    let folder = guarded.files.folder().display();
    let jaas = format!(
        "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"{user}\" \
         password=\"${{dir:{folder}:password}}\";"
    );
    let config = guarded.config(
        Door::Sasl,
        &[
            ("producer.security.protocol", "SASL_PLAINTEXT"),
            ("producer.sasl.mechanism", "SCRAM-SHA-512"),
            ("producer.sasl.jaas.config", &jaas),
            // A drain that is not over in time would hide that the last clients did not get the password.
            ("outboxd.shutdown.timeout.ms", "3600000"),
        ],
    );
    guarded.rotate(&config, |number, relay| {
        guarded.secure.broker.set_scram(&user, &password(number));
        if number > 1 {
            let refusals = || relay.stderr().to_lowercase().matches("authentication failed").count();
            let before = refusals();
            eventually(DEADLINE, "the broker refuses the old password", || refusals() > before);
        }
        guarded.files.replace("password", &password(number));
    });
}

#[test]
fn a_key_store_that_changes_is_used() {
    let guarded = Guarded::new();
    let write = |authority: &Authority| {
        let issued = authority.issue("relay");
        let key = PKey::private_key_from_pem(issued.key_pem.expose().as_bytes()).unwrap();
        let certificate = X509::from_pem(issued.chain_pem.as_bytes()).unwrap();
        let store = Pkcs12::builder().pkey(&key).cert(&certificate).build2("changeit").unwrap();
        let (path, draft) = (guarded.files.folder().join("client.p12"), guarded.files.folder().join("draft"));
        fs::write(&draft, store.to_der().unwrap()).unwrap();
        fs::rename(draft, &path).unwrap();
        path.display().to_string()
    };
    let ours = &guarded.secure.authority;
    let (trust, store) = (guarded.files.replace("ours.pem", &ours.pem()), write(ours));
    let config = guarded.config(
        Door::MutualTls,
        &[
            ("producer.security.protocol", "SSL"),
            ("producer.ssl.truststore.location", &trust),
            ("producer.ssl.keystore.location", &store),
            ("producer.ssl.keystore.password", "changeit"),
        ],
    );
    guarded.rotate(&config, |_, _| drop(write(ours)));
    // One that the broker does not trust shows that new connections have what is in the file.
    let http = unused_port().unwrap();
    let mut relay = Relay::start_with(&config, &["--http", &http.to_string()], &[]);
    get_until(http, "/readyz", "is ready", |page| page.code == 200);
    write(&Authority::new("somebody else's"));
    relay.wait_for_stderr(CHANGED);
    get_until(http, "/readyz", "is not ready", |page| page.code == 503);
    write(ours);
    get_until(http, "/readyz", "is ready again", |page| page.code == 200);
    assert!(relay.is_running(), "{}", relay.stderr());
    assert_eq!(relay.stop(), 0);
}

/// The certificate is there before its key: the last pair is used until they fit together.
#[test]
fn a_certificate_and_a_key_that_do_not_fit_are_not_used() {
    let guarded = Guarded::new();
    let ours = &guarded.secure.authority;
    let (first, second) = (ours.issue("relay"), ours.issue("relay"));
    let trust = guarded.files.replace("ours.pem", &ours.pem());
    let certificate = guarded.files.replace("client.pem", &first.chain_pem);
    let key = guarded.files.replace("client.key", first.key_pem.expose());
    let config = guarded.config(
        Door::MutualTls,
        &[
            ("producer.security.protocol", "SSL"),
            ("producer.ssl.truststore.location", &trust),
            ("rdkafka.ssl.certificate.location", &certificate),
            ("rdkafka.ssl.key.location", &key),
        ],
    );
    let mut relay = Relay::start(&config);
    guarded.db.wait_until_streaming();
    guarded.files.replace("client.pem", &second.chain_pem);
    relay.wait_for_stderr("the login at Kafka cannot be read again; the last one stays");
    guarded.db.insert(&[Event::new("order", "o-1", "OrderCreated", "{}")]);
    guarded.db.wait_until_confirmed();
    guarded.files.replace("client.key", second.key_pem.expose());
    relay.wait_for_stderr(CHANGED);
    guarded.db.wait_until_streaming();
    guarded.db.insert(&[Event::new("order", "o-1", "OrderPaid", "{}")]);
    guarded.db.wait_until_confirmed();
    assert!(relay.is_running(), "{}", relay.stderr());
    assert_eq!(relay.stop(), 0);
}
