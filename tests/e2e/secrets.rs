//! Planted words that must be in no output: passwords, keys, and what rows hold.

use std::fs;

use openssl::pkey::PKey;
use openssl::symm::Cipher;
use outboxd::internals::throwaway::{Options, ThrowawayPostgres, unused_port};

use crate::support::http::{get_until, try_get};
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres;
use crate::support::relay::{Config, Relay, with};
use crate::support::secure_kafka::{Door, PASSWORD, Secure, SecureKafka, USER, secure};
use crate::support::wait::DEADLINE;
use crate::support::watcher::Watcher;

/// One word for each hiding place, so that a find names it.
const DATABASE_PASSWORD: &str = "canarydbpassword";
const KEY_PASSWORD: &str = "canarykeypassword";
/// Of the password of the shared broker.
const SASL_PASSWORD: &str = "canarysaslpassword";
const PAYLOAD: &str = "canarypayload";
const KEY: &str = "canarykey";
const OTHER_TABLE: &str = "canaryother";
const SETTING: &str = "canarysetting";
const ALL: [&str; 7] = [DATABASE_PASSWORD, KEY_PASSWORD, SASL_PASSWORD, PAYLOAD, KEY, OTHER_TABLE, SETTING];

/// Servers that want every secret there is.
struct Vault {
    kafka: &'static SecureKafka,
    db: Outbox,
    keys: Watcher,
    _server: ThrowawayPostgres,
}

impl Vault {
    fn new() -> Self {
        let Secure { broker, authority, .. } = secure();
        assert!(PASSWORD.contains(SASL_PASSWORD));
        let server = ThrowawayPostgres::start(&Options {
            certificate: Some(authority.issue("db.test")),
            hba: vec!["hostssl all secret all scram-sha-256 clientcert=verify-full".to_owned()],
            ..postgres::options(18, &[])
        });
        let server = server.unwrap();
        let db = Outbox::create(&server);
        db.execute(&format!("CREATE ROLE secret LOGIN SUPERUSER PASSWORD '{DATABASE_PASSWORD}'"));
        db.execute("CREATE TABLE other (word text)");
        let keys = Watcher::new("outboxd-keys-");
        let client = authority.issue("secret");
        let key = PKey::private_key_from_pem(client.key_pem.expose().as_bytes()).unwrap();
        let sealed =
            key.private_key_to_pem_pkcs8_passphrase(Cipher::aes_256_cbc(), KEY_PASSWORD.as_bytes()).unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(keys.folder().join(name), bytes).unwrap();
        write("ours.pem", authority.pem().as_bytes());
        write("client.pem", client.chain_pem.as_bytes());
        write("client.key", &sealed);
        Self { kafka: broker, db, keys, _server: server }
    }

    fn config(&self) -> Config {
        let key = |name: &str| self.keys.folder().join(name).display().to_string();
        let jaas = format!(
            "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"{USER}\" \
             password=\"{PASSWORD}\";"
        );
        with(
            self.db.config(&self.kafka.kafka),
            &[
                ("database.user", "secret"),
                ("database.password", DATABASE_PASSWORD),
                ("database.sslmode", "verify-full"),
                ("database.sslrootcert", &key("ours.pem")),
                ("database.sslcert", &key("client.pem")),
                ("database.sslkey", &key("client.key")),
                ("database.sslpassword", KEY_PASSWORD),
                ("bootstrap.servers", &self.kafka.bootstrap(Door::SaslTls, "127.0.0.1")),
                ("producer.security.protocol", "SASL_SSL"),
                ("producer.ssl.truststore.location", &key("ours.pem")),
                ("producer.sasl.mechanism", "SCRAM-SHA-512"),
                ("producer.sasl.jaas.config", &jaas),
                ("rdkafka.debug", "all"),
            ],
        )
    }

    fn event(&self) -> Event {
        Event::new("order", KEY, "OrderCreated", &format!("{{\"secret\": \"{PAYLOAD}\"}}"))
    }

    fn insert(&self) {
        self.db.execute(&format!("INSERT INTO other VALUES ('{OTHER_TABLE}')"));
        self.db.insert(&[self.event()]);
    }
}

const LOUD: [(&str, &str); 1] = [("OUTBOXD_LOG", "trace")];

#[track_caller]
fn silent(what: &str, said: &str) {
    for canary in ALL {
        let line = said.lines().find(|line| line.contains(canary));
        assert_eq!(line, None, "{what} shows {canary}");
    }
}

#[track_caller]
fn silent_relay(what: &str, relay: &Relay) {
    silent(what, &relay.stdout());
    silent(what, &relay.stderr());
}

#[test]
fn no_secret_and_no_row_is_in_any_output() {
    let vault = Vault::new();
    // A snapshot, a stream and a restart, with the most verbose logs.
    vault.insert();
    let http = unused_port().unwrap();
    for start in 1..=2 {
        let mut relay = Relay::start_with(&vault.config(), &["--http", &http.to_string()], &LOUD);
        vault.db.wait_until_streaming();
        vault.insert();
        let records = vault.kafka.kafka.read(&vault.db.topic("order"), start + 1);
        assert!(records.iter().all(|record| record.key() == KEY && record.value().contains(PAYLOAD)));
        vault.db.wait_until_confirmed();
        get_until(http, "/readyz", "is ready", |page| page.code == 200);
        for path in ["/metrics", "/readyz", "/livez", "/startupz", "/health", "/q/health", "/q/metrics", "/"]
        {
            let page = try_get(http, path).unwrap();
            silent(path, &page.body);
        }
        relay.terminate();
        assert_eq!(relay.wait_for_exit(DEADLINE), 0);
        // Loud it was: Kafka's client lists its configuration, and is the one to leave the password out.
        for word in ["\"level\":\"TRACE\"", "SCRAM-SHA-512", "sasl.password = [redacted]"] {
            assert!(relay.stderr().contains(word), "{word} is not told");
        }
        silent_relay("run", &relay);
    }
}

#[test]
fn no_error_shows_a_secret_or_a_row() {
    let vault = Vault::new();
    let wrong: [(&str, &str, i32); 7] = [
        // What is set is itself a secret, and wrong.
        ("database.password", SETTING, 4),
        ("database.sslpassword", SETTING, 2),
        (
            "producer.sasl.jaas.config",
            "ScramLoginModule required username=\"relay\" password=\"canarysetting",
            2,
        ),
        (
            "producer.sasl.jaas.config",
            "ScramLoginModule required username=\"relay\" password=\"canarysetting\";",
            5,
        ),
        ("producer.ssl.key.password", SETTING, 0),
        ("database.port", "1", 4),
        ("database.passwort", SETTING, 2),
    ];
    for (key, value, exit) in wrong {
        let mut relay = Relay::start_with(&with(vault.config(), &[(key, value)]), &[], &LOUD);
        if exit == 0 {
            vault.db.wait_until_streaming();
            relay.terminate();
        }
        assert_eq!(relay.wait_for_exit(DEADLINE), exit, "{key}: {}", relay.stderr());
        silent_relay(key, &relay);
    }
    // A row that has no route, and a record that Kafka refuses.
    vault.kafka.kafka.create_topic(&vault.db.topic("small"), 1, &[("max.message.bytes", "1000")]);
    let mut event = vault.event();
    event.aggregate_type = "not a topic".to_owned();
    let mut large = Event::new("small", KEY, "Large", "");
    large.payload = Some(format!("{{\"secret\": \"{}\"}}", PAYLOAD.repeat(1000)));
    for event in [event, large] {
        // Each begins with a slot of its own.
        let config = with(vault.config(), &[("outboxd.position.topic", "")]);
        let mut relay = Relay::start_with(&config, &[], &LOUD);
        vault.db.wait_until_streaming();
        vault.db.insert(&[event]);
        assert_eq!(relay.wait_for_exit(DEADLINE), 6, "{}", relay.stderr());
        silent_relay("exit 6", &relay);
        vault.db.query("SELECT pg_drop_replication_slot($1)", &[&vault.db.name()]);
        vault.db.execute("TRUNCATE outbox");
    }
}

#[test]
fn no_check_shows_a_secret_or_a_row() {
    let vault = Vault::new();
    vault.insert();
    let file = vault.keys.folder().join("config.json");
    let wrong: [&[(&str, &str)]; 4] = [
        &[],
        &[("database.password", SETTING)],
        &[("database.passwort", SETTING)],
        &[(
            "producer.sasl.jaas.config",
            "PlainLoginModule required username=\"relay\" password=\"canarysetting\";",
        )],
    ];
    for settings in wrong {
        fs::write(&file, serde_json::to_vec(&with(vault.config(), settings)).unwrap()).unwrap();
        for arguments in [&["check", "-c"][..], &["check", "--json", "-c"]] {
            let mut command = Relay::command(&[arguments, &[file.to_str().unwrap()]].concat());
            let exit = command.wait_for_exit(DEADLINE);
            assert_eq!(exit == 2, !settings.is_empty(), "{settings:?}: {}", command.stdout());
            silent_relay("check", &command);
        }
    }
}
