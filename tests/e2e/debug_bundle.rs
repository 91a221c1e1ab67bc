//! `outboxd debug bundle`: what is in it, and what is not.

use std::fs;

use outboxd::internals::throwaway::unused_port;
use serde_json::Value;

use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::postgres18;
use crate::support::relay::{Relay, with};
use crate::support::wait::DEADLINE;
use crate::support::watcher::Watcher;

const PASSWORD: &str = "canary\"password";
const KAFKA_PASSWORD: &str = "canarykafkapassword";
const URL_PASSWORD: &str = "canaryurlpassword";
const PAYLOAD: &str = "canarypayload";
const SECRETS: [&str; 5] = [PASSWORD, "canary\\\"password", KAFKA_PASSWORD, URL_PASSWORD, PAYLOAD];

#[test]
fn a_bundle_has_the_facts_and_no_secret() {
    let db = Outbox::create(postgres18());
    db.insert(&[Event::new("order", "1", "Made", &format!("{{\"x\":\"{PAYLOAD}\"}}"))]);
    let settings = [("database.password", PASSWORD)];
    let config = with(db.config(kafka()), &settings);
    let port = unused_port().unwrap().to_string();
    let relay = Relay::start_with(&config, &["--http", &port], &[]);
    db.wait_until_streaming();
    let folder = Watcher::new("outboxd-bundle-");
    let path = |name: &str| folder.folder().join(name);
    fs::write(path("outbox.json"), serde_json::to_vec(&config).unwrap()).unwrap();
    let log =
        format!("first line\nlogin with {PASSWORD} and {KAFKA_PASSWORD}\nhttp://me:{URL_PASSWORD}@hooks/x\n");
    fs::write(path("relay.log"), log).unwrap();
    let (file, log, into) = (path("outbox.json"), path("relay.log"), path("bundle"));
    let arguments =
        ["debug", "bundle", "-c", file.to_str().unwrap(), "--log", log.to_str().unwrap(), "--into"];
    let key = format!("producer.override.ssl.key.password={KAFKA_PASSWORD}");
    let all = [&arguments[..], &[into.to_str().unwrap(), "--http", &port, "-X", &key]].concat();
    let mut bundle = Relay::command(&all);
    assert_eq!(bundle.wait_for_exit(DEADLINE), 0, "{}", bundle.stderr());
    assert_eq!(bundle.stdout().trim(), into.to_str().unwrap());
    assert!(bundle.stderr().contains("tar -czf"), "{}", bundle.stderr());

    let text = |name: &str| fs::read_to_string(into.join(name)).unwrap_or_else(|_| panic!("no {name}"));
    let json = |name: &str| -> Value {
        serde_json::from_str(&text(name)).unwrap_or_else(|error| panic!("{name}: {error}: {}", text(name)))
    };
    let configured = json("configuration.json").to_string();
    assert!(configured.contains("slot.name") && configured.contains("********"), "{configured}");
    assert!(json("check.json")["checks"].as_array().is_some_and(|checks| checks.len() > 3));
    assert_eq!(json("status.json")["source"]["slot"], db.name());
    let catalog = json("catalog.json");
    assert_eq!(catalog["tables"][0]["table"], "outbox", "{catalog:#}");
    assert!(catalog["slots"].to_string().contains(db.name()), "{catalog:#}");
    assert_eq!(json("version.json")["outboxd"], env!("CARGO_PKG_VERSION"));
    assert!(
        text("log.txt").starts_with("first line\nlogin with ******** and ********\n"),
        "{}",
        text("log.txt")
    );

    let mut files = 0;
    for entry in fs::read_dir(&into).unwrap() {
        let bytes = fs::read_to_string(entry.unwrap().path()).unwrap();
        SECRETS.iter().for_each(|secret| assert!(!bytes.contains(secret), "{secret} is in {bytes}"));
        files += 1;
    }
    assert_eq!(files, 6);
    // A second one does not overwrite it.
    let mut again = Relay::command(&all);
    assert_eq!(again.wait_for_exit(DEADLINE), 1);
    assert_eq!(relay.stop(), 0);
}

#[test]
fn servers_that_are_down_are_in_the_bundle_as_reasons() {
    let folder = Watcher::new("outboxd-bundle-");
    let into = folder.folder().join("bundle");
    let [postgres, broker] = [(); 2].map(|()| unused_port().unwrap().to_string());
    let settings = [
        "topic.prefix=a".to_owned(),
        "database.hostname=127.0.0.1".to_owned(),
        format!("database.port={postgres}"),
        "database.dbname=a".to_owned(),
        "database.user=a".to_owned(),
        format!("bootstrap.servers=127.0.0.1:{broker}"),
    ];
    let mut arguments = vec!["debug", "bundle", "--into", into.to_str().unwrap()];
    settings.iter().for_each(|setting| arguments.extend(["-X", setting.as_str()]));
    let mut bundle = Relay::command(&arguments);
    assert_eq!(bundle.wait_for_exit(DEADLINE), 0, "{}", bundle.stderr());
    for name in ["status.json", "catalog.json", "check.json"] {
        let text = fs::read_to_string(into.join(name)).unwrap();
        assert!(text.contains(&postgres), "{name}: {text}");
    }
}
