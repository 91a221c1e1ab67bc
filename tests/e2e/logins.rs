//! Every way in which PostgreSQL may ask who we are.

use std::fs;
use std::path::Path;

use outboxd::internals::throwaway::{Certificate, Options, ThrowawayPostgres};

use crate::support::certificate::Authority;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{self, postgres18};
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually};

/// One role for each method; the rest, such as the tests' own sessions, is trusted.
const HBA: [&str; 7] = [
    "host    all by_password all password",
    "host    all by_md5      all md5",
    "host    all by_scram    all scram-sha-256",
    "hostssl all by_tls      all scram-sha-256",
    "hostssl all by_cert     all cert",
    "host    all by_tls      all reject",
    "host    all by_cert     all reject",
];

const ROLES: &str = "
    SET password_encryption = 'md5';
    CREATE ROLE by_md5 LOGIN SUPERUSER PASSWORD 'it''s';
    SET password_encryption = 'scram-sha-256';
    CREATE ROLE by_trust LOGIN SUPERUSER;
    CREATE ROLE by_password LOGIN SUPERUSER PASSWORD 'it''s';
    CREATE ROLE by_scram LOGIN SUPERUSER PASSWORD 'it''s';
    CREATE ROLE by_tls LOGIN SUPERUSER PASSWORD 'it''s';
    CREATE ROLE by_cert LOGIN SUPERUSER";

#[test]
fn every_login_method_lets_events_through() {
    let authority = Authority::new("ours");
    for major in [15, 18] {
        let server = start(major, &authority);
        let db = Outbox::create(&server);
        db.execute(ROLES);
        let root_cert = file(&server, "root.pem", &authority.pem());
        let (cert, key) = client_files(&server, &authority.issue("by_cert"));
        let client = [("database.sslcert", cert.as_str()), ("database.sslkey", key.as_str())];
        let verify = |mode| [("database.sslmode", mode), ("database.sslrootcert", root_cert.as_str())];
        let logins: [(&str, &[(&str, &str)]); 9] = [
            ("by_trust", &[("database.sslmode", "disable")]),
            ("by_password", &[("database.sslmode", "disable")]),
            ("by_md5", &[("database.sslmode", "disable")]),
            ("by_scram", &[("database.sslmode", "disable")]),
            // Over TLS the server offers channel binding, and it is taken.
            ("by_tls", &[]),
            ("by_tls", &[("database.sslmode", "allow")]),
            ("by_tls", &[("database.sslmode", "require")]),
            ("by_tls", &verify("verify-full")),
            ("by_cert", &[verify("verify-ca"), client].concat()),
        ];
        for (n, (user, settings)) in logins.iter().enumerate() {
            let topic = format!("login{n}");
            let config = with(login(&db, user), settings);
            let relay = Relay::start(&config);
            db.wait_until_streaming();
            db.insert(&[Event::new(&topic, "o-1", "OrderCreated", "{}")]);
            kafka().read(&db.topic(&topic), 1);
            assert_eq!(relay.stop(), 0, "{user} {settings:?}");
        }
    }
}

/// A certificate is there before its key: until then, connections have the last pair.
#[test]
fn a_client_certificate_that_is_replaced_is_used_by_the_next_connection() {
    let authority = Authority::new("ours");
    let server = start(18, &authority);
    let db = Outbox::create(&server);
    db.execute(ROLES);
    let root_cert = file(&server, "root.pem", &authority.pem());
    let (cert, key) = client_files(&server, &authority.issue("by_cert"));
    let mut relay = Relay::start(&with(
        login(&db, "by_cert"),
        &[
            ("database.sslmode", "verify-full"),
            ("database.sslrootcert", &root_cert),
            ("database.sslcert", &cert),
            ("database.sslkey", &key),
        ],
    ));
    db.wait_until_streaming();
    let serial = || {
        let rows = db.query(
            "SELECT client_serial::text FROM pg_stat_ssl JOIN pg_stat_replication USING (pid)
             JOIN pg_replication_slots ON active_pid = pid WHERE slot_name = $1",
            &[&db.name()],
        );
        rows.first().and_then(|row| row.get::<_, Option<String>>(0))
    };
    let first = serial().expect("a certificate");
    let next = authority.issue("by_cert");
    file(&server, "client.pem", &next.chain_pem);
    db.end_the_stream();
    relay.wait_for_stderr("certificate files have changed and cannot be used");
    db.wait_until_streaming();
    assert_eq!(serial(), Some(first.clone()));
    file(&server, "client.key", next.key_pem.expose());
    db.end_the_stream();
    relay.wait_for_stderr("certificate files have changed; new connections use them");
    eventually(DEADLINE, "the new certificate", || serial().is_some_and(|serial| serial != first));
    db.insert(&[Event::new("rotated", "o-1", "OrderCreated", "{}")]);
    kafka().read(&db.topic("rotated"), 1);
    assert!(relay.is_running(), "0 restarts: {}", relay.stderr());
    assert_eq!(relay.stop(), 0);
}

#[test]
fn tls_that_cannot_be_trusted_is_refused() {
    let [authority, stranger] = ["ours", "somebody else's"].map(Authority::new);
    let server = start(18, &authority);
    let db = Outbox::create(&server);
    db.execute(ROLES);
    let [ours, theirs] = [("ours.pem", &authority), ("theirs.pem", &stranger)]
        .map(|(name, authority)| file(&server, name, &authority.pem()));
    let full = ("database.sslmode", "verify-full");
    refuse(&db, &[full, ("database.sslrootcert", &theirs)], &["database.sslrootcert"]);
    refuse(&db, &[("database.sslmode", "verify-ca"), ("database.sslrootcert", &theirs)], &["TLS"]);
    // The certificate names 127.0.0.1 and db.test.
    let elsewhere = ("database.hostname", "localhost");
    refuse(&db, &[full, ("database.sslrootcert", &ours), elsewhere], &["database.hostname", "localhost"]);
    refuse(&db, &[("database.sslmode", "disable")], &["by_tls", "pg_hba.conf"]);
    refuse(&db, &[("database.password", "hunter2")], &["by_tls", "database.password"]);
}

#[test]
fn a_server_without_tls_cannot_satisfy_require() {
    let db = Outbox::create(postgres18());
    let mut relay = Relay::start(&with(db.config(kafka()), &[("database.sslmode", "require")]));
    assert_eq!(relay.wait_for_exit(DEADLINE), 4, "{}", relay.stderr());
    assert!(relay.stderr().contains("database.sslmode"), "{}", relay.stderr());
}

fn start(major: u16, authority: &Authority) -> ThrowawayPostgres {
    let certificate = Some(authority.issue("db.test"));
    let hba = HBA.map(str::to_owned).into();
    ThrowawayPostgres::start(&Options { certificate, hba, ..postgres::options(major, &[]) }).unwrap()
}

fn login(db: &Outbox, user: &str) -> Config {
    let password = if ["by_trust", "by_cert"].contains(&user) { "" } else { "it's" };
    with(db.config(kafka()), &[("database.user", user), ("database.password", password)])
}

#[track_caller]
fn refuse(db: &Outbox, settings: &[(&str, &str)], names: &[&str]) {
    let mut relay = Relay::start(&with(login(db, "by_tls"), settings));
    let exit = relay.wait_for_exit(DEADLINE);
    let said = relay.stderr();
    assert_eq!(exit, 4, "{settings:?}: {said}");
    names.iter().for_each(|name| assert!(said.contains(name), "{settings:?} does not name {name}: {said}"));
    assert!(!said.contains("hunter2"), "a secret is shown: {said}");
    assert!(db.leftovers().is_empty(), "{settings:?} left {:?}", db.leftovers());
}

fn client_files(server: &ThrowawayPostgres, certificate: &Certificate) -> (String, String) {
    let cert = file(server, "client.pem", &certificate.chain_pem);
    (cert, file(server, "client.key", certificate.key_pem.expose()))
}

/// Writes a file into the server's folder.
fn file(server: &ThrowawayPostgres, name: &str, text: &str) -> String {
    let path = Path::new(server.folder()).join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}
