//! Every way in which Kafka may ask who we are, and whom we trust.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use openssl::pkcs12::Pkcs12;
use openssl::pkey::PKey;
use openssl::x509::X509;

use crate::printed_fixes::{fix_of, setting};
use crate::support::cache::run;
use crate::support::certificate::Authority;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::postgres18;
use crate::support::relay::{Config, Relay, with};
use crate::support::secure_kafka::{Door, PASSWORD, Secure, SecureKafka, USER, secure};
use crate::support::token_endpoint::TokenEndpoint;
use crate::support::wait::{DEADLINE, eventually};
use crate::support::watcher::Watcher;

const PATIENCE: Duration = Duration::from_secs(20);
const STARTS: usize = 100;

/// The shared broker behind locks, and keys.
struct Locked {
    kafka: &'static SecureKafka,
    db: Outbox,
    keys: Watcher,
}

impl Locked {
    fn new() -> Self {
        let (Secure { broker, authority, .. }, stranger) = (secure(), Authority::new("somebody else's"));
        let keys = Watcher::new("outboxd-keys-");
        let client = authority.issue("relay");
        let foreign = stranger.issue("relay");
        for (name, text) in [
            ("ours.pem", authority.pem()),
            ("theirs.pem", stranger.pem()),
            ("client.pem", client.key_pem.expose().to_owned() + &client.chain_pem),
            ("foreign.pem", foreign.key_pem.expose().to_owned() + &foreign.chain_pem),
        ] {
            fs::write(keys.folder().join(name), text).unwrap();
        }
        Self { kafka: broker, db: Outbox::create(postgres18()), keys }
    }

    /// Writes our authority into a store, as `keytool` does.
    fn import(&self, kind: &str, name: &str) -> String {
        let (certificate, store) = (self.key("ours.pem"), self.key(name));
        let mut keytool = Command::new("keytool");
        keytool.args([
            "-importcert",
            "-noprompt",
            "-alias",
            "ours",
            "-storepass",
            PASSWORD,
            "-storetype",
            kind,
        ]);
        run("keytool", keytool.args(["-file", &certificate, "-keystore", &store]));
        store
    }

    fn key(&self, name: &str) -> String {
        self.keys.folder().join(name).display().to_string()
    }

    fn config(&self, door: Door, host: &str, settings: &[(&str, &str)]) -> Config {
        let bootstrap = self.kafka.bootstrap(door, host);
        let config = with(self.db.config(&self.kafka.kafka), &[("bootstrap.servers", &bootstrap)]);
        with(config, settings)
    }

    #[track_caller]
    fn let_in(&self, topic: &str, door: Door, settings: &[(&str, &str)]) {
        let relay = Relay::start(&self.config(door, "127.0.0.1", settings));
        self.db.wait_until_streaming();
        self.db.insert(&[Event::new(topic, "o-1", "OrderCreated", "{}")]);
        self.kafka.kafka.read(&self.db.topic(topic), 1);
        self.db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0, "{door:?} {settings:?}");
    }

    #[track_caller]
    fn refuse(&self, door: Door, host: &str, settings: &[(&str, &str)], words: &[&str]) {
        let settings = &[&[("outboxd.startup.timeout.ms", "5000")], settings].concat();
        let mut relay = Relay::start(&self.config(door, host, settings));
        assert_eq!(relay.wait_for_exit(PATIENCE), 5, "{door:?} {settings:?}: {}", relay.stderr());
        let said = relay.stderr();
        let last = said.lines().rfind(|line| line.contains("exit_code")).unwrap();
        words
            .iter()
            .for_each(|word| assert!(last.contains(word), "{settings:?} does not say {word:?}: {last}"));
        for secret in [PASSWORD, "hunter2"] {
            assert!(!said.contains(secret), "a secret is shown: {said}");
        }
    }
}

fn jaas(module: &str, password: &str) -> String {
    format!("org.apache.kafka.common.security.{module} required username=\"{USER}\" password=\"{password}\";")
}

fn login(mechanism: &str, password: &str) -> String {
    let module = if mechanism == "PLAIN" { "plain.PlainLoginModule" } else { "scram.ScramLoginModule" };
    jaas(module, password)
}

#[test]
fn every_login_that_kafka_knows_lets_events_through() {
    let locked = Locked::new();
    let (ours, client) = (locked.key("ours.pem"), locked.key("client.pem"));
    let trust = ("producer.ssl.truststore.location", ours.as_str());
    let tls = ("producer.security.protocol", "SSL");
    locked.let_in("tls", Door::Tls, &[tls, trust]);
    let inline = fs::read_to_string(&ours).unwrap();
    locked.let_in("inline", Door::Tls, &[tls, ("producer.ssl.truststore.certificates", &inline)]);
    locked.let_in("mutual", Door::MutualTls, &[tls, trust, ("producer.ssl.keystore.location", &client)]);
    for (n, mechanism) in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"].into_iter().enumerate() {
        let jaas = login(mechanism, PASSWORD);
        let says = [("producer.sasl.mechanism", mechanism), ("producer.sasl.jaas.config", jaas.as_str())];
        let sasl = [&says[..], &[("producer.security.protocol", "SASL_PLAINTEXT")]].concat();
        locked.let_in(&format!("sasl{n}"), Door::Sasl, &sasl);
        let both = [&says[..], &[("producer.security.protocol", "SASL_SSL"), trust]].concat();
        locked.let_in(&format!("both{n}"), Door::SaslTls, &both);
    }
}

/// Java takes any of its stores under any name.
#[test]
fn stores_that_java_has_written_let_events_through() {
    let locked = Locked::new();
    let tls = ("producer.security.protocol", "SSL");
    let trust = locked.import("PKCS12", "ours.jks");
    let trust =
        [tls, ("producer.ssl.truststore.location", &trust), ("producer.ssl.truststore.password", PASSWORD)];
    locked.let_in("trust", Door::Tls, &trust);
    let client = fs::read(locked.key("client.pem")).unwrap();
    let (key, certificate) = (PKey::private_key_from_pem(&client).unwrap(), X509::from_pem(&client).unwrap());
    let store = Pkcs12::builder().pkey(&key).cert(&certificate).build2(PASSWORD).unwrap();
    fs::write(locked.key("client.jks"), store.to_der().unwrap()).unwrap();
    let client = locked.key("client.jks");
    let both =
        [("producer.ssl.keystore.location", client.as_str()), ("producer.ssl.keystore.password", PASSWORD)];
    let mutual = [&trust[..], &both].concat();
    locked.let_in("both", Door::MutualTls, &mutual);
    let config = serde_json::to_string(&locked.config(Door::MutualTls, "127.0.0.1", &mutual)).unwrap();
    let config = locked.keys.replace("config.json", &config);
    let topic = locked.db.topic("both");
    for command in
        [&["tail", "--topic", &topic, "--since", "1h", "-n", "1"][..], &["dlq", "ls", "--from", &topic]]
    {
        let mut shown = Relay::command(&[command, &["-c", &config]].concat());
        assert_eq!(shown.wait_for_exit(DEADLINE), 0, "{command:?}: {}{}", shown.stdout(), shown.stderr());
    }
    let old = locked.import("JKS", "old.jks");
    for option in ["producer.ssl.truststore.location", "producer.ssl.keystore.location"] {
        let mut relay = Relay::start(&locked.config(Door::Tls, "127.0.0.1", &[tls, (option, &old)]));
        assert_eq!(relay.wait_for_exit(DEADLINE), 2, "{}", relay.stderr());
        let said = relay.stderr();
        let command = format!("keytool -importkeystore -srckeystore {old}");
        assert!(said.contains(option) && said.contains(&command), "{said}");
    }
    let mut relay = Relay::start(&locked.config(
        Door::Tls,
        "127.0.0.1",
        &[tls, ("producer.ssl.truststore.location", &old)],
    ));
    relay.wait_for_exit(DEADLINE);
    let fix = fix_of(&relay);
    let (_, command) = fix.split_once("keytool ").unwrap();
    let mut keytool = Command::new("keytool");
    keytool.args(command.split(',').next().unwrap().split_whitespace());
    // It asks for them: twice for the new one, and for the old one.
    let mut process =
        keytool.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    process.stdin.take().unwrap().write_all(format!("{PASSWORD}\n").repeat(3).as_bytes()).unwrap();
    assert!(process.wait().unwrap().success(), "{command}");
    let new = setting(&fix, "producer.ssl.truststore.location");
    locked.let_in("new", Door::Tls, &[tls, new, ("producer.ssl.truststore.password", PASSWORD)]);
}

#[test]
fn a_wrong_key_is_reported_as_what_it_is() {
    let locked = Locked::new();
    let [ours, theirs, foreign] = ["ours.pem", "theirs.pem", "foreign.pem"].map(|name| locked.key(name));
    let store = "producer.ssl.truststore.location";
    let (trust, tls) = ((store, ours.as_str()), ("producer.security.protocol", "SSL"));
    locked.refuse(Door::Tls, "127.0.0.1", &[tls, (store, &theirs)], &["certificate", store]);
    // The certificate names 127.0.0.1 and kafka.test.
    let name = ["certificate", "bootstrap.servers", "ssl.endpoint.identification.algorithm"];
    locked.refuse(Door::Tls, "localhost", &[tls, trust], &name);
    let key = "producer.ssl.keystore.location";
    locked.refuse(Door::MutualTls, "127.0.0.1", &[tls, trust, (key, &foreign)], &[key]);
    locked.refuse(Door::MutualTls, "127.0.0.1", &[tls, trust], &[key]);
    // Plain text at a door that speaks TLS.
    locked.refuse(Door::Tls, "127.0.0.1", &[], &["producer.security.protocol"]);
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let jaas = login(mechanism, "hunter2");
        let says = [
            ("producer.sasl.mechanism", mechanism),
            ("producer.sasl.jaas.config", jaas.as_str()),
            ("producer.security.protocol", "SASL_SSL"),
            trust,
        ];
        locked.refuse(Door::SaslTls, "127.0.0.1", &says, &["producer.sasl.jaas.config"]);
    }
    assert!(locked.db.leftovers().is_empty(), "PostgreSQL is not touched");
}

/// It ends while librdkafka speaks TLS on threads of its own, which must not be how it ends. Once in fifty times it was.
#[test]
fn a_mistake_that_is_found_while_kafka_is_spoken_to_has_its_exit_code() {
    let locked = Locked::new();
    let [ours, client] = ["ours.pem", "client.pem"].map(|name| locked.key(name));
    let no_key = [
        ("producer.security.protocol", "SSL"),
        ("producer.ssl.truststore.location", ours.as_str()),
        ("database.sslmode", "require"),
        ("database.sslcert", client.as_str()),
        ("database.sslkey", ours.as_str()),
    ];
    let config = locked.config(Door::Tls, "127.0.0.1", &no_key);
    for _ in 0..STARTS {
        let mut relay = Relay::start(&config);
        assert_eq!(relay.wait_for_exit(PATIENCE), 2, "{}", relay.stderr());
    }
}

const TOKENS: [(&str, &str); 2] =
    [("producer.security.protocol", "SASL_PLAINTEXT"), ("producer.sasl.mechanism", "OAUTHBEARER")];

fn bearer(options: &str) -> String {
    format!("org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required {options};")
}

/// As Apache Kafka's client and Strimzi's have it. The secret has what must not be taken for the end of it.
#[test]
fn tokens_of_an_identity_provider_let_events_through() {
    let locked = Locked::new();
    let endpoint = TokenEndpoint::start("outbox", PASSWORD, Duration::from_secs(3600));
    let url = endpoint.url();
    let at = ("producer.sasl.oauthbearer.token.endpoint.url", url.as_str());
    let apache = bearer(&format!("clientId=\"outbox\" clientSecret=\"{PASSWORD}\" scope=\"kafka write\""));
    let handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler";
    let says = [
        at,
        ("producer.sasl.jaas.config", apache.as_str()),
        ("producer.sasl.login.callback.handler.class", handler),
    ];
    locked.let_in("apache", Door::Tokens, &[&TOKENS[..], &says].concat());
    assert!(endpoint.asked().iter().all(|body| body.contains("scope=kafka write")), "{:?}", endpoint.asked());
    let strimzi = bearer(&format!(
        "oauth.client.id=\"outbox\" oauth.client.secret=\"{PASSWORD}\" oauth.token.endpoint.uri=\"{url}\""
    ));
    let handler = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler";
    let says = [
        ("producer.sasl.jaas.config", strimzi.as_str()),
        ("producer.sasl.login.callback.handler.class", handler),
    ];
    locked.let_in("strimzi", Door::Tokens, &[&TOKENS[..], &says].concat());
}

#[test]
fn a_token_is_asked_for_again_before_it_ends() {
    let locked = Locked::new();
    let endpoint = TokenEndpoint::start("outbox", PASSWORD, Duration::from_secs(5));
    let (url, jaas) = (endpoint.url(), bearer(&format!("clientId=outbox clientSecret=\"{PASSWORD}\"")));
    let says = [
        ("producer.sasl.oauthbearer.token.endpoint.url", url.as_str()),
        ("producer.sasl.jaas.config", jaas.as_str()),
    ];
    let relay = Relay::start(&locked.config(Door::Tokens, "127.0.0.1", &[&TOKENS[..], &says].concat()));
    locked.db.wait_until_streaming();
    let asked = endpoint.asked().len();
    eventually(DEADLINE, "tokens are asked for again", || endpoint.asked().len() > asked + 3);
    locked.db.insert(&[Event::new("renewed", "o-1", "OrderCreated", "{}")]);
    locked.kafka.kafka.read(&locked.db.topic("renewed"), 1);
    locked.db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_login_without_a_token_is_reported_with_its_reason() {
    let locked = Locked::new();
    let endpoint = TokenEndpoint::start("outbox", PASSWORD, Duration::from_secs(3600));
    let (url, nowhere) = (endpoint.url(), "http://127.0.0.1:1/token");
    let jaas = |secret: &str| bearer(&format!("clientId=outbox clientSecret=\"{secret}\""));
    let key = "producer.sasl.oauthbearer.token.endpoint.url";
    for (url, secret, words) in [
        (url.as_str(), "hunter2", ["invalid_client", "producer.sasl.jaas.config"]),
        (nowhere, PASSWORD, ["onnect", key]),
    ] {
        let jaas = jaas(secret);
        let says = [&TOKENS[..], &[(key, url), ("producer.sasl.jaas.config", jaas.as_str())]].concat();
        locked.refuse(Door::Tokens, "127.0.0.1", &says, &words);
    }
}
