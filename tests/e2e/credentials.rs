//! Passwords of PostgreSQL that are asked for at each connection.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use outboxd::internals::secret::Secret;
use outboxd::internals::throwaway::{Authentication, Options, ThrowawayPostgres, unused_port};
use serde_json::json;

use crate::support::http::get_until;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres;
use crate::support::relay::{Config, Relay, with};
use crate::support::vault::VaultServer;
use crate::support::wait::{DEADLINE, eventually, let_pass};
use crate::support::watcher::Watcher;

/// Words that no output may have.
const FIRST: &str = "canaryfirst";
const SECOND: &str = "canarysecond";

/// Names and values of environment variables.
type Variables<'a> = &'a [(&'a str, &'a str)];

/// A server that wants the password of role `relay`, and a folder for its files.
struct Rotating {
    db: Outbox,
    folder: Watcher,
    _server: ThrowawayPostgres,
}

impl Rotating {
    fn new() -> Self {
        let authentication = Authentication::ScramSha256(Secret::new("right"));
        let server = ThrowawayPostgres::start(&Options { authentication, ..postgres::options(18, &[]) });
        let server = server.unwrap();
        let db = Outbox::create(&server);
        db.execute(&format!("CREATE ROLE relay LOGIN SUPERUSER PASSWORD '{FIRST}'"));
        Self { db, folder: Watcher::new("outboxd-credentials-"), _server: server }
    }

    fn write(&self, name: &str, text: &str) -> String {
        self.folder.replace(name, text)
    }

    fn script(&self, name: &str, text: &str) -> String {
        let path = self.write(name, text);
        format!("sh '{path}'")
    }

    /// Returns the configuration without a password.
    fn config(&self, settings: &[(&str, &str)]) -> Config {
        let mut config = self.db.config(kafka());
        config.remove("database.password");
        with(with(config, &[("database.user", "relay"), ("snapshot.mode", "no_data")]), settings)
    }

    fn placeholder(&self) -> String {
        format!("${{dir:{}:password}}", self.folder.folder().display())
    }

    fn end_all_sessions(&self) {
        self.db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'relay'");
    }

    fn check(&self, config: &Config, environment: &[(&str, &str)]) -> (i32, String) {
        let file = self.write("config.json", &serde_json::to_string(config).unwrap());
        let mut check = Relay::command_with(&["check", "-c", &file], environment);
        let exit = check.wait_for_exit(DEADLINE);
        (exit, check.stdout() + &check.stderr())
    }
}

#[track_caller]
fn silent(said: &str) {
    for word in [FIRST, SECOND] {
        assert!(!said.contains(word), "{word} is shown: {said}");
    }
}

#[test]
fn a_password_file_that_rotates_loses_nothing() {
    let rotating = Rotating::new();
    rotating.write("password", FIRST);
    rotate(&rotating, &[("database.password", &rotating.placeholder())]);
}

#[test]
fn a_command_whose_password_rotates_loses_nothing() {
    let rotating = Rotating::new();
    let path = rotating.write("password", FIRST);
    let text =
        format!("echo 'got it' >&2; printf '{{\"password\":\"%s\",\"expires_in\":900}}' \"$(cat '{path}')\"");
    let command = rotating.script("print", &text);
    rotate(&rotating, &[("outboxd.database.password.command", &command)]);
}

#[test]
fn a_secret_of_vault_that_rotates_is_read_again() {
    let rotating = Rotating::new();
    let vault = VaultServer::start(json!({ "username": "relay", "password": FIRST }));
    let variables = vault.variables();
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut config = rotating.config(&[("database.password", "${vault:secret/orders/db:password}")]);
    config.insert("database.user".to_owned(), "${vault:secret/orders/db:username}".into());
    let mut relay = Relay::start_with(&config, &[], &variables);
    rotating.db.wait_until_streaming();
    rotating.db.execute(&format!("ALTER ROLE relay PASSWORD '{SECOND}'"));
    vault.set(Some(json!({ "username": "relay", "password": SECOND })));
    rotating.end_all_sessions();
    rotating.db.insert(&[Event::new("order", "o-1", "OrderCreated", "{}")]);
    rotating.db.wait_until_confirmed();
    assert!(relay.is_running(), "0 restarts: {}", relay.stderr());
    silent(&relay.stderr());
    assert_eq!(relay.stop(), 0);
    let (_, said) = rotating.check(&config, &variables);
    assert!(
        said.contains("by the password of database.password, which is asked for at each connection"),
        "{said}"
    );
    vault.set(None);
    let mut relay = Relay::start_with(&config, &[], &variables);
    assert_eq!(relay.wait_for_exit(DEADLINE), 1, "a supervisor starts it again: {}", relay.stderr());
    let said = relay.stderr();
    assert!(said.contains("Vault is sealed") && said.contains("database.password"), "{said}");
    let (exit, said) = rotating.check(&config, &[]);
    assert!(exit == 2 && said.contains("export VAULT_ADDR=…"), "{exit} {said}");
}

/// Changes the password under load and ends every session of the relay, repeatedly: `OUTBOXD_ROTATION_SECONDS`, 10
/// without it.
fn rotate(rotating: &Rotating, settings: &[(&str, &str)]) {
    let seconds =
        std::env::var("OUTBOXD_ROTATION_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let (db, over) = (&rotating.db, AtomicBool::new(false));
    // A connection that breaks inside a transaction repeats its sent rows, unless they are looked for.
    let guarantee = [("outboxd.delivery.guarantee", "tail_dedupe")];
    let mut relay = Relay::start(&with(rotating.config(settings), &guarantee));
    db.wait_until_streaming();
    let (sent, rotations) = thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut sent = 0_usize;
            while !over.load(Ordering::Relaxed) {
                db.insert(&[Event::new("order", "o-1", "OrderCreated", "{}")]);
                sent += 1;
                let_pass(Duration::from_millis(2));
            }
            sent
        });
        let (start, mut rotations) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_secs(seconds) {
            rotations += 1;
            let password = format!("{SECOND}{rotations}");
            db.execute(&format!("ALTER ROLE relay PASSWORD '{password}'"));
            // A moment in which the old password is refused and there is no other.
            rotating.end_all_sessions();
            let_pass(Duration::from_millis(300));
            rotating.write("password", &password);
            let_pass(Duration::from_millis(700));
            rotating.end_all_sessions();
        }
        over.store(true, Ordering::Relaxed);
        (load.join().unwrap(), rotations)
    });
    db.wait_until_streaming();
    db.wait_until_confirmed();
    let records = kafka().read(&db.topic("order"), sent);
    let ids: BTreeSet<_> = records.iter().map(|record| record.header("id").to_owned()).collect();
    println!("{rotations} rotations, {sent} events, {} records, {} ids", records.len(), ids.len());
    assert_eq!((records.len(), ids.len()), (sent, sent), "0 lost, 0 twice");
    assert!(relay.is_running(), "0 restarts: {}", relay.stderr());
    silent(&relay.stderr());
    assert_eq!(relay.stop(), 0);
}

#[test]
fn each_source_of_a_password_lets_events_through() {
    let rotating = Rotating::new();
    let address = rotating.db.address().clone();
    rotating.write("password", FIRST);
    let command = rotating.script("print", &format!("echo {FIRST}"));
    let pgpass = rotating.write("pgpass", &format!("nobody:*:*:*:x\n{}:*:*:relay:{FIRST}\n", address.host));
    let service = rotating.write(
        "services",
        &format!(
            "[orders]\nhost={}\nport={}\nuser=relay\ndbname={}\npassword={FIRST}\n",
            address.host, address.port, address.database
        ),
    );
    let mut of_service = rotating.config(&[("outboxd.database.service", "orders")]);
    for key in ["hostname", "port", "user", "dbname"] {
        of_service.remove(&format!("database.{key}"));
    }
    let placeholder = rotating.placeholder();
    let cases: [(Config, Variables<'_>, &str); 5] = [
        (rotating.config(&[("database.password", &placeholder)]), &[], "database.password"),
        (
            rotating.config(&[("outboxd.database.password.command", &command)]),
            &[],
            "outboxd.database.password.command",
        ),
        (rotating.config(&[]), &[("PGPASSFILE", &pgpass)], "database.password"),
        (rotating.config(&[("outboxd.database.passfile", &pgpass)]), &[], "outboxd.database.passfile"),
        (of_service, &[("PGSERVICEFILE", &service)], "database.password"),
    ];
    for (number, (config, environment, option)) in cases.iter().enumerate() {
        let relay = Relay::start_with(config, &[], environment);
        rotating.db.wait_until_streaming();
        rotating.db.insert(&[Event::new("order", "o-1", "OrderCreated", "{}")]);
        kafka().read(&rotating.db.topic("order"), number + 1);
        silent(&relay.stderr());
        assert_eq!(relay.stop(), 0);
        let (exit, said) = rotating.check(config, environment);
        assert_ne!(exit, 2, "{said}");
        assert!(said.contains(&format!("by the password of {option}, ")), "{said}");
        silent(&said);
    }
}

#[test]
fn check_names_the_expiry_of_a_password() {
    let rotating = Rotating::new();
    let text = format!("echo '{{\"password\":\"{FIRST}\",\"expiration\":\"2099-01-31T12:00:00Z\"}}'");
    let command = rotating.script("print", &text);
    let (_, said) = rotating.check(&rotating.config(&[("outboxd.database.password.command", &command)]), &[]);
    assert!(said.contains("password.command, which expires at 2099-01-31T12:00:00Z"), "{said}");
}

#[test]
fn a_source_that_fails_is_named_and_asked_again() {
    let rotating = Rotating::new();
    let command = rotating.script("print", &format!("echo {FIRST}"));
    let config = rotating.config(&[
        ("outboxd.database.password.command", &command),
        ("outboxd.database.password.timeout.ms", "500"),
    ]);
    let http = unused_port().unwrap();
    let mut relay = Relay::start_with(&config, &["--http", &http.to_string()], &[]);
    rotating.db.wait_until_streaming();
    let broken = [
        ("sleep 600", "did not answer within"),
        ("echo 'no such role, password=canarysecond' >&2; exit 3", "exit status: 3"),
        ("echo canarysecond; echo canarysecond", "more than one line"),
        ("echo canarysecond", "refused the login"),
    ];
    for (text, reason) in broken {
        rotating.script("print", text);
        rotating.end_all_sessions();
        let page = get_until(http, "/readyz", reason, |page| page.body.contains(reason));
        assert_eq!(page.code, 503);
        silent(&page.body);
        rotating.script("print", &format!("echo {FIRST}"));
        get_until(http, "/readyz", "is ready again", |page| page.code == 200);
    }
    assert!(relay.is_running());
    assert!(relay.stderr().contains("stderr: no such role, password=********"), "{}", relay.stderr());
    silent(&relay.stderr());
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_password_that_stays_wrong_ends_the_start_with_exit_4() {
    let rotating = Rotating::new();
    rotating.write("password", "canarysecond");
    let pgpass = rotating.write("pgpass", "nobody:*:*:*:x\n");
    let patience = ("outboxd.startup.timeout.ms", "1000");
    let placeholder = rotating.placeholder();
    let cases: [(&[(&str, &str)], &str); 3] = [
        (
            &[patience, ("database.password", &placeholder)],
            "let database.password return the password of role",
        ),
        (
            &[patience, ("outboxd.database.password.command", "false")],
            "outboxd.database.password.command: false failed",
        ),
        (&[patience, ("outboxd.database.passfile", &pgpass)], "asks for a password of user"),
    ];
    for (settings, words) in cases {
        let mut relay = Relay::start(&rotating.config(settings));
        assert_eq!(relay.wait_for_exit(DEADLINE), 4, "{}", relay.stderr());
        assert!(relay.stderr().contains(words), "{}", relay.stderr());
        silent(&relay.stderr());
    }
}

#[test]
fn what_cannot_be_a_source_is_refused() {
    let rotating = Rotating::new();
    let file = rotating.write("services", "[other]\nhost=db\n");
    let cases: [(&[(&str, &str)], &str); 4] = [
        (&[("outboxd.database.password.command", "print '")], "a quote in it is not closed"),
        (
            &[("database.password", FIRST), ("outboxd.database.password.command", "print")],
            "database.password is set too",
        ),
        (&[("outboxd.database.service", "orders")], "has no service"),
        (&[("outboxd.database.password.timeout.ms", "0")], "it must be a whole number"),
    ];
    for (settings, words) in cases {
        let mut relay = Relay::start_with(&rotating.config(settings), &[], &[("PGSERVICEFILE", &file)]);
        assert_eq!(relay.wait_for_exit(DEADLINE), 2, "{}", relay.stderr());
        assert!(relay.stderr().contains(words), "{}", relay.stderr());
        silent(&relay.stderr());
    }
    assert!(Path::new(&file).exists());
    eventually(DEADLINE, "no session is left", || rotating.db.leftovers().is_empty());
}
