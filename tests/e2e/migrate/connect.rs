//! `outboxd migrate --from-connector`, against a stand-in for Kafka Connect's REST interface that stops, resumes and
//! deletes one connector. Other tests show that outboxd continues from Debezium's slot and offset.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use change_events::source_offset::{OffsetKey, OffsetMap, SourceOffset};
use pg_replication::wal::PgTimestamp;
use serde_json::Value;

use crate::commands::session::Session;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres18, start};
use crate::support::relay::{Relay, with};
use crate::support::wait::{DEADLINE, eventually};
use crate::support::watcher::Watcher;

const PAGE: &str = include_str!("../../../docs/migrate/from-debezium.md");

/// A connector as Connect shows it; the requests that it received are in `orders`.
#[derive(Debug, Default)]
struct Connect {
    state: Option<&'static str>,
    orders: Vec<String>,
}

/// Serves until the test process ends.
fn serve(connect: Arc<Mutex<Connect>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let request = lines.next().unwrap().unwrap();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            let request = request.trim_end_matches(" HTTP/1.1").to_owned();
            let (code, body) = connect.lock().unwrap().answer(&request);
            let length = body.len();
            let answer =
                format!("HTTP/1.1 {code} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    port
}

impl Connect {
    fn answer(&mut self, request: &str) -> (u16, String) {
        let Some(state) = self.state else { return (404, "{}".to_owned()) };
        if request == "GET /connectors/orders-outbox/status" {
            return (
                200,
                format!(
                    "{{\"name\":\"orders-outbox\",\"connector\":{{\"state\":\"{state}\"}},\"tasks\":[]}}"
                ),
            );
        }
        self.orders.push(request.to_owned());
        self.state = match request {
            "PUT /connectors/orders-outbox/stop" => Some("STOPPED"),
            "PUT /connectors/orders-outbox/resume" => Some("RUNNING"),
            "DELETE /connectors/orders-outbox" => None,
            other => panic!("{other}"),
        };
        (204, String::new())
    }
}

#[test]
fn a_connector_is_stopped_resumed_and_deleted() {
    // No other client writes to its WAL: a run may find nothing to do.
    let server = start(18);
    let db = Outbox::create(&server);
    let folder = Watcher::new("outboxd-migrate-");
    let path = |name: &str| folder.folder().join(name).display().to_string();
    let plain = db.config(kafka());
    let config = with(
        plain.clone(),
        &[("name", "orders-outbox"), ("offset.storage.file.filename", &path("offsets.dat"))],
    );
    fs::write(path("outbox.json"), serde_json::to_vec(&config).unwrap()).unwrap();
    fs::write(path("plain.json"), serde_json::to_vec(&plain).unwrap()).unwrap();
    let connect = Arc::new(Mutex::new(Connect { state: Some("RUNNING"), orders: Vec::new() }));
    let url = format!("http://127.0.0.1:{}/connectors/orders-outbox", serve(Arc::clone(&connect)));
    let refused = |command: &str, file: &str, why: &str| {
        let mut process = Relay::command(&["migrate", command, "-c", &path(file), "--from-connector", &url]);
        let exit = process.wait_for_exit(DEADLINE);
        assert!(exit == 3 && process.stderr().contains(why), "{command}: {}", process.stderr());
    };
    refused("start", "outbox.json", "there is no replication slot");
    db.execute(&format!("CREATE PUBLICATION {} FOR TABLE outbox", db.name()));
    db.query("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", &[&db.name()]);
    refused("plan", "plain.json", "stored offset");
    // Another topic or name than the worker's: the connector would be stopped for nothing.
    for command in ["plan", "start"] {
        refused(command, "outbox.json", "no offset of the connector is in file");
    }
    let slot_at = db.slot().unwrap().confirmed_flush_lsn.unwrap();
    let stored = SourceOffset::up_to(slot_at, None, PgTimestamp::from_unix_us(1_795_219_241_069_695));
    let mut offsets = OffsetMap::default();
    let key = OffsetKey::new("orders-outbox", config["topic.prefix"].as_str().unwrap());
    offsets.insert(key.as_bytes(), stored.to_string().into_bytes());
    fs::write(path("offsets.dat"), offsets.to_bytes()).unwrap();
    refused("finish", "outbox.json", "is not stopped");

    let names = [
        ("outbox.json", path("outbox.json")),
        ("http://connect:8083/connectors/orders-outbox", url.clone()),
        ("orders_slot", db.name().to_owned()),
    ];
    let session = |heading: &str| Session::of(PAGE, heading).replay(&names);
    assert_eq!(session("Switch with outboxd migrate"), [0, 0]);
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    db.insert(&[Event::new("order", "1", "Made", "{}")]);
    kafka().read(&db.topic("order"), 1);
    refused("rollback", "outbox.json", "is read by pid");
    // A run that was killed may have sent what its offset does not know, and so may the one behind it.
    let run = || {
        let relay = Relay::start(&config);
        db.wait_until_streaming();
        db.wait_until_confirmed();
        relay
    };
    let is = |state| connect.lock().unwrap().state = Some(state);
    let killed = |mut relay: Relay| {
        relay.kill();
        eventually(DEADLINE, "nobody has the slot", || db.slot().is_some_and(|slot| !slot.active));
        // A paused one continues from its stored offset too.
        for state in ["PAUSED", "STOPPED"] {
            is(state);
            refused("rollback", "outbox.json", "has not ended cleanly");
        }
    };
    killed(relay);
    assert_eq!(run().stop(), 0);
    killed(run());
    let step = |command: &str| {
        let arguments = ["migrate", command, "-c", &path("outbox.json"), "--from-connector", &url, "--json"];
        let mut process = Relay::command(&arguments);
        let exit = process.wait_for_exit(DEADLINE);
        let said: Value = serde_json::from_str(&process.stdout()).unwrap();
        (exit, said["done"].as_bool().unwrap(), said["steps"][0]["request"].as_str().map(str::to_owned))
    };
    let resumed = (0, true, Some(format!("PUT {url}/resume")));
    // It sends already: nothing can be held back any more.
    is("RUNNING");
    assert_eq!(step("rollback"), resumed);
    assert_eq!(run().stop(), 0);
    is("PAUSED");
    assert_eq!(step("rollback"), resumed);
    is("STOPPED");
    assert_eq!(session("Switch back with outboxd migrate"), [0]);
    refused("finish", "outbox.json", "is not stopped");
    assert_eq!(step("start"), (0, true, Some(format!("PUT {url}/stop"))));
    assert_eq!(step("finish"), (1, false, None), "nobody agreed");
    assert_eq!(session("Finish with outboxd migrate"), [0]);
    let plan = ["migrate", "plan", "-c", &path("outbox.json"), "--from-connector", &url, "--print-sql"];
    assert_eq!(Relay::command(&plan).wait_for_exit(DEADLINE), 2, "there is no SQL");
    let orders: Vec<_> = connect
        .lock()
        .unwrap()
        .orders
        .iter()
        .map(|order| order.replace("/connectors/orders-outbox", ""))
        .collect();
    let back = ["PUT /resume"; 3];
    assert_eq!(orders, [&["PUT /stop"], &back[..], &["PUT /stop", "DELETE "]].concat());
}

/// It takes connections and never answers.
#[test]
fn a_server_that_never_answers_is_named_after_a_second_and_given_up() {
    let db = Outbox::create(postgres18());
    let folder = Watcher::new("outboxd-migrate-");
    let file = folder.folder().join("outbox.json").display().to_string();
    fs::write(&file, serde_json::to_vec(&db.config(kafka())).unwrap()).unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let url = format!("http://{address}/connectors/orders-outbox");
    let mut process = Relay::command(&["migrate", "plan", "-c", &file, "--from-connector", &url]);
    process.wait_for_stderr(&format!("waiting for Kafka Connect at {url}"));

    // The same of Kafka.
    let servers = format!("bootstrap.servers={address}");
    let id = "9b6a1f60-0d0c-4c5e-9a43-6f6d1d3ad0b1";
    for command in [&["explain", id][..], &["tail"], &["move", "plan"], &["verify"]] {
        let command = Relay::command(&[command, &["-c", &file, "-X", &servers]].concat());
        command.wait_for_stderr(&format!("waiting for Kafka at {address}"));
    }
    let (exit, said) = (process.wait_for_exit(DEADLINE), process.stderr());
    assert!(exit == 3 && said.contains(&format!("no answer from {url}")), "{exit} {said}");
}
