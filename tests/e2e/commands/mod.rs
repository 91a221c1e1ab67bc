//! The sessions of docs/commands.md, typed into the real command; and what the page does not show.

pub(crate) mod session;
mod sessions;

use std::fs;

use outboxd::internals::throwaway::unused_port;
use serde_json::Value;

use crate::support::http::get_until;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18, start};
use crate::support::relay::{Relay, with};
use crate::support::terminal::Terminal;
use crate::support::wait::{DEADLINE, eventually};
use crate::support::watcher::Watcher;
use session::Session;

const PAGE: &str = include_str!("../../../docs/commands.md");

fn event(kind: &str, n: u32) -> Event {
    Event::new(kind, &n.to_string(), "Made", "{}")
}

/// Runs a command; its exit code, standard output, and standard error.
fn run(arguments: &[&str]) -> (i32, String, String) {
    let mut process = Relay::command(arguments);
    (process.wait_for_exit(DEADLINE), process.stdout(), process.stderr())
}

#[test]
fn the_sessions_about_a_slot_are_what_is_seen() {
    // The list of slots is that of a whole server.
    let server = start(18);
    let db = Outbox::create(&server);
    let port = unused_port().unwrap();
    let folder = Watcher::new("outboxd-commands-");
    let file = folder.folder().join("outbox.json");
    fs::write(&file, serde_json::to_vec(&db.config(kafka())).unwrap()).unwrap();
    let names = [
        ("outbox.json", file.display().to_string()),
        ("8080", port.to_string()),
        ("orders", db.name().to_owned()),
    ];

    let relay = Relay::start_with(&db.config(kafka()), &["--http", &port.to_string()], &[]);
    db.wait_until_streaming();
    db.insert(&[event("order", 1), event("order", 2), event("payment", 3)]);
    get_until(port, "/status", "has sent and confirmed them", |page| {
        let seen = page.json();
        seen["events"]["sent"] == 3 && seen["lag"]["bytes"] == 0 && seen["slot"]["retained_bytes"].is_u64()
    });
    let steps = Session::of(PAGE, "State of the relay: outboxd status and lag").replay(&names);
    assert_eq!(steps, [0, 0, 0, 130, 0]);

    assert_eq!(relay.stop(), 0);
    db.insert(&[event("order", 4), event("order", 5)]);
    let end = db.current_wal_lsn().to_string();
    let names = [&names[..], &[("0/322E6A0", end)]].concat();
    let steps = Session::of(PAGE, "Replication slots: outboxd slot").replay(&names);
    assert_eq!(steps, [1, 0, 0, 0]);
    let slot = db.slot();
    assert!(slot.is_some(), "it was dropped and made again");
}

#[test]
fn the_session_about_the_configuration_is_what_is_seen() {
    let folder = Watcher::new("outboxd-commands-");
    let file = folder.folder().join("outbox.properties");
    let text = PAGE.split("```properties\n").nth(1).unwrap().split("```").next().unwrap();
    fs::write(&file, text).unwrap();
    // The variable must not exist: a reference that cannot be resolved is reported, and the rest is still shown.
    let session = Session::of(PAGE, "Show and convert the configuration: outboxd config");
    let names = [("outbox.properties", file.display().to_string())];
    assert_eq!(session.with_variable("HOSTNAME_OF_ORDERS", "db.example").replay(&names), [0; 4]);
    let (exit, stdout, stderr) = run(&["config", "show", "-c", file.to_str().unwrap()]);
    assert_eq!(exit, 2, "{stdout}");
    assert!(
        stdout.contains("slot.name=orders\n") && stderr.contains("HOSTNAME_OF_ORDERS"),
        "{stdout}{stderr}"
    );
    assert!(!stdout.contains("hunter2") && !stderr.contains("hunter2"));
}

#[test]
fn what_is_wrong_with_a_configuration_is_shown_with_it() {
    let wrong = ["-X", "slot.name=orders", "-X", "slot.name=${env:OUTBOXD_NO_SUCH}", "-X", "slot.nam=a"];
    let (exit, stdout, stderr) = run(&[&["config", "show", "-X", "topic.prefix=a b"][..], &wrong].concat());
    // A value before an unreadable one has no effect.
    assert!(stdout.contains("slot.name=(cannot be read)\n") && !stdout.contains("=orders"), "{stdout}");
    assert_eq!(exit, 2, "{stderr}");
    for told in ["cannot be resolved", "topic.prefix=a b is not allowed", "unknown key \"slot.nam\""] {
        assert!(stderr.contains(told), "{told} is not in {stderr}");
    }
    let (exit, stdout, _) = run(&[&["config", "show", "--all", "--json"][..], &wrong].concat());
    let shown: Value = serde_json::from_str(&stdout).unwrap();
    let of_slot: Vec<_> =
        shown["settings"].as_array().unwrap().iter().filter(|line| line["key"] == "slot.name").collect();
    assert_eq!((exit, of_slot.len(), &of_slot[0]["value"]), (2, 1, &Value::Null), "{stdout}");
    assert_eq!(shown["mistakes"].as_array().map(Vec::len), Some(2), "{stdout}");
    // A part of a configuration is no mistake.
    let (exit, stdout, stderr) = run(&["config", "show", "-X", "slot.name=orders", "--json"]);
    assert!(exit == 0 && stdout.contains(r#""mistakes":[]"#), "{stdout}{stderr}");
}

#[test]
fn a_name_that_no_slot_can_have_is_reported_with_one_that_it_can() {
    let own = ["-X", "database.hostname=127.0.0.1", "-X", "database.dbname=a", "-X", "database.user=a"];
    for arguments in [
        ["slot", "create", "--slot", "Orders-DB"],
        ["slot", "create", "-X", "slot.name=Orders-DB"],
        ["slot", "drop", "--slot", "Orders-DB"],
    ] {
        let (exit, _, stderr) = run(&[&arguments[..], &own].concat());
        assert!(
            exit == 2 && stderr.contains("1 to 63 of a-z, 0-9 and _") && stderr.contains("orders_db"),
            "{exit} {stderr}"
        );
    }
}

#[test]
fn a_converted_configuration_is_the_same() {
    let db = Outbox::create(postgres15());
    let folder = Watcher::new("outboxd-commands-");
    let path = |name: &str| folder.folder().join(name).display().to_string();
    fs::write(path("a.json"), serde_json::to_vec(&db.config(kafka())).unwrap()).unwrap();
    let shown = |file: &str| run(&["config", "show", "-c", file]).1;
    for (form, name) in [("properties", "b.properties"), ("json", "b.json")] {
        let (exit, text, _) = run(&["config", "convert", "-c", &path("a.json"), "--to", form]);
        assert_eq!(exit, 0);
        fs::write(path(name), text).unwrap();
        let without_secrets = |text: &str| -> Vec<String> {
            let is_secret = |line: &&str| line.ends_with("********") || line.ends_with("(cannot be read)");
            text.lines().filter(|line| !is_secret(line)).map(str::to_owned).collect()
        };
        assert_eq!(without_secrets(&shown(&path(name))), without_secrets(&shown(&path("a.json"))), "{form}");
    }
}

#[test]
fn a_configuration_for_debezium_server_is_read_as_one() {
    let db = Outbox::create(postgres15());
    let folder = Watcher::new("outboxd-commands-");
    let path = |name: &str| folder.folder().join(name).display().to_string();
    let mut config = db.config(kafka());
    let text = "org.apache.kafka.connect.storage.StringConverter";
    let more = [("key.converter", text), ("value.converter", text), ("header.converter", text)];
    config.extend(more.map(|(key, value)| (key.to_owned(), value.into())));
    config.insert("database.user".to_owned(), "${env:NAME_OF_USER}".into());
    config.insert("producer.override.linger.ms".to_owned(), "5".into());
    fs::write(path("a.json"), serde_json::to_vec(&config).unwrap()).unwrap();
    let variables = [("NAME_OF_USER", "someone"), ("OUTBOXD_DATABASE_PASSWORD", "x")];
    let conversion = ["config", "convert", "-c", &path("a.json"), "--to", "server"];
    let mut process = Relay::command_with(&conversion, &variables);
    assert_eq!(process.wait_for_exit(DEADLINE), 0, "{}", process.stderr());
    let written = process.stdout();
    for line in [
        "debezium.source.database.user=${NAME_OF_USER}",
        "debezium.sink.type=kafka",
        "debezium.format.value=simplestring",
        "debezium.transforms=outbox",
    ] {
        assert!(written.lines().any(|found| found == line), "{line} is not in {written}");
    }
    fs::write(path("application.properties"), &written).unwrap();
    let shown = |file: &str| {
        let mut process = Relay::command_with(&["config", "show", "-c", file], &variables);
        assert_eq!(process.wait_for_exit(DEADLINE), 0, "{}", process.stderr());
        let lines = process.stdout();
        let known = |line: &&str| !line.starts_with("debezium.sink.type=") && !line.starts_with("name=");
        lines.lines().filter(known).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(shown(&path("application.properties")), shown(&path("a.json")));
}

/// A connector knows neither the sink nor Quarkus, and calls the producer's settings otherwise.
#[test]
fn what_is_for_debezium_server_itself_stays_there() {
    let folder = Watcher::new("outboxd-commands-");
    let file = folder.folder().join("application.properties").display().to_string();
    let server = "debezium.sink.type=kafka\nquarkus.log.console.json=false\n";
    fs::write(&file, format!("{server}debezium.sink.kafka.producer.linger.ms=5\n")).unwrap();

    let (exit, text, told) = run(&["config", "convert", "-c", &file, "--to", "json"]);
    let connector: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((exit, &connector["config"]["producer.override.linger.ms"]), (0, &"5".into()), "{text}");
    assert!(!text.contains("debezium.sink") && !text.contains("quarkus"), "{text}");
    for key in ["debezium.sink.type", "quarkus.log.console.json"] {
        assert!(told.contains(&format!("{key}: not written, it is for Debezium Server itself")), "{told}");
    }
    let (exit, text, _) = run(&["config", "convert", "-c", &file, "--to", "server"]);
    let lines = text.lines().filter(|line| !line.starts_with("debezium.format."));
    let expected =
        server.lines().chain(["debezium.sink.kafka.producer.linger.ms=5", "debezium.source.name=kafka"]);
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    assert_eq!(
        (exit, sorted(lines.map(str::to_owned).collect())),
        (0, sorted(expected.map(str::to_owned).collect()))
    );
}

#[test]
fn an_instance_that_does_not_answer_is_named_with_the_fix() {
    let port = unused_port().unwrap().to_string();
    let (exit, _, stderr) = run(&["status", "--http", &port]);
    assert!(exit == 1 && stderr.contains("no answer from") && stderr.contains("to fix"), "{stderr}");
    let (exit, _, stderr) = run(&["lag"]);
    assert!(exit == 2 && stderr.contains("--http ADDR"), "{stderr}");
    // The same for a script.
    for (arguments, code) in [(&["status", "--http", &port][..], 1), (&["lag", "--every", "0"], 2)] {
        let (exit, stdout, stderr) = run(&[arguments, &["--json"]].concat());
        assert!(exit == code && stdout.is_empty(), "{stdout}{stderr}");
        let said: Value = serde_json::from_str(stderr.lines().last().unwrap()).unwrap();
        assert!(said["code"] == code && said["because"].is_array(), "{said}");
        assert!([&said["error"], &said["fix"]].iter().all(|text| text.is_string()), "{said}");
    }

    let db = Outbox::create(postgres15());
    let folder = Watcher::new("outboxd-commands-");
    let file = folder.folder().join("outbox.json").display().to_string();
    fs::write(&file, serde_json::to_vec(&db.config(kafka())).unwrap()).unwrap();
    let (exit, _, stderr) = run(&["status", "-c", &file]);
    assert!(exit == 3 && stderr.contains("there is no replication slot"), "{stderr}");
    let (exit, _, stderr) = run(&["slot", "create", "-c", &file]);
    assert!(exit == 3 && stderr.contains("there is no publication"), "{stderr}");

    let relay = Relay::start(&db.config(kafka()));
    db.wait_until_streaming();
    let (exit, stdout, stderr) = run(&["slot", "drop", "-c", &file, "--yes"]);
    assert!(exit == 3 && stdout.is_empty() && stderr.contains("is in use by pid"), "{stderr}");
    let (exit, stdout, _) = run(&["status", "-c", &file, "--json"]);
    let seen: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((exit, &seen["from"], &seen["runway"]["kind"]), (0, &"postgres".into(), &"disk".into()));
    assert_eq!(relay.stop(), 0);
    let (exit, stdout, _) = run(&["status", "-c", &file]);
    assert!(exit == 1 && stdout.contains("no client reads it"), "{stdout}");
    // A process that is dead is when the question is asked: PostgreSQL still knows.
    let (exit, stdout, stderr) = run(&["status", "--http", &port, "-c", &file]);
    assert!(
        exit == 1 && stdout.contains("no client reads it") && stderr.contains("no answer from"),
        "{stdout}{stderr}"
    );
}

#[test]
fn the_lag_is_watched_while_the_relay_comes_and_goes() {
    let db = Outbox::create(postgres15());
    let port = unused_port().unwrap().to_string();
    let start = || {
        let relay = Relay::start_with(&db.config(kafka()), &["--http", &port], &[]);
        db.wait_until_streaming();
        relay
    };
    let relay = start();
    let mut watch = Relay::command(&["lag", "--watch", "--every", "100ms", "--json", "--http", &port]);
    let lines = |watch: &Relay| watch.stdout().lines().count();
    eventually(DEADLINE, "it has looked again", || lines(&watch) > 1);
    assert_eq!(relay.stop(), 0);
    watch.wait_for_stderr("no answer from");
    let before = lines(&watch);
    let relay = start();
    eventually(DEADLINE, "it goes on", || lines(&watch) > before + 1);
    watch.interrupt();
    assert_eq!(watch.wait_for_exit(DEADLINE), 130);
    let said = watch.stdout();
    let each = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert!(each.into_iter().all(|seen| seen["lag"].is_object() && seen["from"].is_string()), "{said}");
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_prompt_on_a_terminal_needs_the_name() {
    let db = Outbox::create(postgres15());
    let folder = Watcher::new("outboxd-commands-");
    let file = folder.folder().join("outbox.json").display().to_string();
    fs::write(&file, serde_json::to_vec(&db.config(kafka())).unwrap()).unwrap();
    let relay = Relay::start(&db.config(kafka()));
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
    let slot = db.name();
    for (typed, exit) in [("y", 1), ("", 1), (slot, 0)] {
        let mut terminal = Terminal::start(&["slot", "drop", "-c", &file]);
        terminal.wait_for(&format!("type {slot} if you mean it"));
        terminal.type_keys(&format!("{typed}\n"));
        let (code, screen) = terminal.wait_for_exit();
        assert_eq!(code, Some(exit), "{screen}");
        assert!(screen.contains(&format!("slot {slot} would never send")), "{screen}");
        assert_eq!(screen.contains("nothing was done"), exit == 1, "{screen}");
        assert_eq!(db.slot().is_none(), exit == 0, "{screen}");
    }
}

/// PostgreSQL 18 skips a publication that does not exist, and then sends no changes.
#[test]
fn what_a_slot_has_not_sent_is_counted_whatever_the_publication_is_called() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        let folder = Watcher::new("outboxd-commands-");
        let file = folder.folder().join("outbox.json").display().to_string();
        let config = with(db.config(kafka()), &[("publication.name", "Orders, \"and\" more")]);
        fs::write(&file, serde_json::to_vec(&config).unwrap()).unwrap();
        let relay = Relay::start(&config);
        db.wait_until_streaming();
        assert_eq!(relay.stop(), 0);
        db.insert(&[Event::new("order", "o-1", "OrderCreated", "{}")]);
        let (exit, stdout, stderr) = run(&["slot", "drop", "-c", &file, "--yes", "--json"]);
        assert_eq!(exit, 0, "{stderr}");
        let told: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(told["lost"]["changes"]["rows"], 1, "{told}");
        db.execute("DROP PUBLICATION \"Orders, \"\"and\"\" more\"");
    }
}

#[test]
fn who_is_waited_for_is_named() {
    // A server of its own: on a shared one, another test's transaction may be older.
    let server = start(15);
    let db = Outbox::create(&server);
    let folder = Watcher::new("outboxd-commands-");
    let file = folder.folder().join("outbox.json").display().to_string();
    fs::write(&file, serde_json::to_vec(&db.config(kafka())).unwrap()).unwrap();
    db.execute(&format!("CREATE PUBLICATION {} FOR TABLE outbox", db.name()));
    let other = crate::support::session::Session::new(db.address().clone());
    other.execute("BEGIN");
    let pid: i32 = other.query("SELECT pg_backend_pid(), pg_current_xact_id()::text", &[])[0].get(0);
    let mut create = Relay::command(&["slot", "create", "-c", &file]);
    create.wait_for_stderr(&format!("waiting for the transaction of pid {pid}"));
    other.execute("COMMIT");
    assert_eq!(create.wait_for_exit(DEADLINE), 0, "{}", create.stderr());
}

#[test]
fn a_shell_and_man_are_given_what_they_read() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let (exit, script, _) = run(&["completions", shell]);
        assert!(exit == 0 && script.contains("advance"), "{shell}");
    }
    let (exit, page, _) = run(&["man"]);
    assert!(exit == 0 && page.contains(".TH outboxd 1"), "{page}");
    let folder = Watcher::new("outboxd-commands-");
    let (exit, _, stderr) = run(&["man", "--into", folder.folder().join("man1").to_str().unwrap()]);
    assert_eq!(exit, 0, "{stderr}");
    assert!(folder.folder().join("man1/outboxd-slot-advance.1").exists());
}
