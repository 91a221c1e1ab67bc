//! The first minutes with outboxd: the README's configuration, and the form of the first mistakes.

use std::fs;

use serde_json::Value;

use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::postgres18;
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::DEADLINE;
use crate::support::watcher::Watcher;

const README: &str = include_str!("../../README.md");

/// The files of step 1 of the README, without the role, which needs a password.
const PREPARED: [&str; 2] = [include_str!("../../sql/outbox.sql"), include_str!("../../sql/publication.sql")];

/// Returns the README's configuration, for this database.
fn readme_configuration(db: &Outbox) -> String {
    let text = README.split("```properties\n").nth(1).unwrap().split("```").next().unwrap();
    let own: Config = db.config(kafka());
    let lines = text.lines().map(|line| {
        let (key, value) = line.split_once('=').unwrap();
        let replaced = own.get(key).filter(|_| key.starts_with("database.") || key == "bootstrap.servers");
        let value = match key {
            "name" | "topic.prefix" | "slot.name" => db.name(),
            "database.password" => "unused",
            _ => replaced.and_then(Value::as_str).unwrap_or(value),
        };
        format!("{key}={value}\n")
    });
    let port = own["database.port"].to_string().replace('"', "");
    lines.chain([format!("database.port={port}\n")]).collect()
}

fn log_lines(relay: &Relay) -> Vec<Value> {
    let said = relay.stderr();
    let line = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line} in {said}"));
    said.lines().map(line).collect()
}

#[test]
fn the_readme_starts_without_a_warning() {
    let db = Outbox::create_bare(postgres18(), "SELECT 1");
    PREPARED.iter().for_each(|sql| db.execute(sql));
    let files = [("outbox.properties", readme_configuration(&db))];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let mut relay = Relay::start_from(&files, &["--log", "json"], &[]);
    db.wait_until_streaming();
    relay.wait_for_stderr("\"to\":\"streaming\"");
    relay.terminate();
    assert_eq!(relay.wait_for_exit(DEADLINE), 0);
    let warnings: Vec<_> = log_lines(&relay).into_iter().filter(|line| line["level"] != "INFO").collect();
    assert_eq!(warnings, Vec::<Value>::new());
}

#[test]
fn the_error_that_ends_the_process_is_one_object_where_logs_are_json() {
    let db = Outbox::create(postgres18());
    let config = db.config(kafka());
    let cases = [
        (with(config.clone(), &[("slot.nam", "x")]), &[][..], 2, "configuration"),
        (with(config.clone(), &[("database.dbname", "no_such_base")]), &[], 4, "definite"),
        (config, &["--http", "192.0.2.1:1"], 1, "definite"),
    ];
    for (config, arguments, code, class) in cases {
        let mut relay = Relay::start_with(&config, &[&["--log", "json"], arguments].concat(), &[]);
        assert_eq!(relay.wait_for_exit(DEADLINE), code);
        let errors: Vec<_> = log_lines(&relay).into_iter().filter(|line| line["level"] == "ERROR").collect();
        assert_eq!(errors.len(), 1, "{errors:?}");
        let error = &errors[0];
        assert_eq!((&error["code"], &error["exit_code"]), (&code.into(), &code.into()), "{error}");
        assert_eq!(error["class"], class, "{error}");
        assert!(error["message"].is_string() && (code == 1 || error["fix"].is_string()), "{error}");
    }
    // Neither a filter that hides errors nor a mistake in the command line takes the reason away.
    for (argument, filter) in [("--http=8080", "off"), ("--no-such-option", "info")] {
        let mut process =
            Relay::command_with(&["run", "--log", "json", argument], &[("OUTBOXD_LOG", filter)]);
        assert_eq!(process.wait_for_exit(DEADLINE), 2);
        let said: Value = serde_json::from_str(process.stderr().trim()).unwrap();
        assert_eq!((&said["code"], &said["class"]), (&2.into(), &"configuration".into()), "{said}");
    }
}

#[test]
fn the_lines_for_kafkas_tools_can_be_pasted() {
    let db = Outbox::create(postgres18());
    let topic = db.topic("order");
    db.insert(&[Event::new("order", "1", "Made", "{}")]);
    let folder = Watcher::new("outboxd-first-");
    let file = folder.folder().join("outbox.json");
    fs::write(&file, serde_json::to_vec(&db.config(kafka())).unwrap()).unwrap();
    let fix = || {
        let mut check = Relay::command(&["check", "--json", "-c", file.to_str().unwrap()]);
        check.wait_for_exit(DEADLINE);
        let report: Value = serde_json::from_str(&check.stdout()).unwrap();
        let durability =
            |check: &&Value| check["code"] == "KA012" && check["title"].as_str().unwrap().contains(&topic);
        let check = report["checks"].as_array().unwrap().iter().find(durability).unwrap();
        check["fix"].as_str().unwrap().to_owned()
    };
    let create = fix();
    assert!(create.contains(&format!(" --create --topic {topic} ")), "{create}");
    kafka().run_tool(&create);
    assert!(kafka().topics(&topic).contains(&topic));
    let raise = fix().lines().last().unwrap().to_owned();
    assert!(raise.starts_with("kafka-configs.sh "), "{raise}");
    kafka().run_tool(&raise);
}
