//! Debezium's source offset: taken over from its topic and its file, and handed back.

use std::fs;
use std::time::Duration;

use change_events::source_offset::{MessageType, OffsetKey, OffsetMap, SourceOffset};
use pg_replication::wal::Lsn;
use rdkafka::producer::BaseRecord;
use serde_json::json;

use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::record::Record;
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually_some};
use crate::support::watcher::Watcher;

/// Offset that Debezium 3.6.0.Final has stored for an insert, with the positions of its own WAL.
const RECORDED: &str = r#"{"lsn_proc":26935352,"messageType":"INSERT","lsn_commit":26935168,"lsn":26935352,"txId":813,"ts_usec":1795219241069695}"#;

/// Position of one row in the stream, as Debezium sees it.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    n: u32,
    lsn: u64,
    commit_end: u64,
    previous_end: Option<u64>,
    xid: u64,
    commit_us: i64,
}

impl Place {
    /// Returns the offset that Debezium stores if this row was the last that it sent: the recorded value with this
    /// row's positions.
    pub(crate) fn offset(&self) -> String {
        let mut offset = SourceOffset::parse(RECORDED.as_bytes()).unwrap();
        (offset.lsn, offset.lsn_proc) = (Some(Lsn::new(self.lsn)), Some(Lsn::new(self.lsn)));
        (offset.lsn_commit, offset.tx_id) = (self.previous_end.map(Lsn::new), Some(self.xid));
        offset.committed_at = Some(pg_replication::wal::PgTimestamp::from_unix_us(self.commit_us));
        offset.to_string()
    }
}

fn event(number: u32) -> Event {
    Event::new("order", "o-1", "OrderCreated", &format!("{{\"n\": {number}}}"))
}

/// Makes the slot and the publication that Debezium would have left.
pub(crate) fn debezium_was_here(db: &Outbox) {
    db.execute(&format!("CREATE PUBLICATION {} FOR TABLE outbox", db.name()));
    db.query("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", &[&db.name()]);
}

/// Returns every event that the slot has for its reader, in the order of the stream.
pub(crate) fn places(db: &Outbox) -> Vec<Place> {
    let number = |text: &str| {
        let (_, n) = text.rsplit_once("{\"n\": ").unwrap();
        n.trim_end_matches('}').parse().unwrap()
    };
    changes_of(db, b"I", number)
}

/// Returns every change of a row.
pub(crate) fn changes(db: &Outbox) -> Vec<Place> {
    changes_of(db, b"IUD", |_| 0)
}

fn changes_of(db: &Outbox, kinds: &[u8], number_of: impl Fn(&str) -> u32) -> Vec<Place> {
    let sql = "SELECT lsn::text, data FROM pg_logical_slot_peek_binary_changes($1, NULL, NULL,
               'proto_version', '1', 'publication_names', $2)";
    let number = |bytes: &[u8], at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
    let (mut places, mut open, mut previous_end) = (Vec::<Place>::new(), 0, None);
    let (mut xid, mut commit_us) = (0, 0);
    for row in db.query(sql, &[&db.name(), &db.name()]) {
        let (lsn, data): (Lsn, Vec<u8>) = (row.get::<_, &str>(0).parse().unwrap(), row.get(1));
        match data[0] {
            b'B' => {
                xid = u64::from(u32::from_be_bytes(data[17..21].try_into().unwrap()));
                commit_us = i64::try_from(number(&data, 9)).unwrap() + 946_684_800_000_000;
                open = places.len();
            }
            kind if kinds.contains(&kind) => {
                let n = number_of(&String::from_utf8_lossy(&data));
                places.push(Place { n, lsn: lsn.get(), commit_end: 0, previous_end, xid, commit_us });
            }
            b'C' => {
                let end = number(&data, 10);
                places[open..].iter_mut().for_each(|place| place.commit_end = end);
                previous_end = Some(end);
            }
            _ => {}
        }
    }
    places
}

fn key(db: &Outbox) -> OffsetKey {
    OffsetKey::new(db.name(), db.config(kafka())["topic.prefix"].as_str().unwrap())
}

pub(crate) fn offset_topic(db: &Outbox) -> String {
    let topic = format!("{}-connect-offsets", db.name());
    kafka().create_topic(&topic, 25, &[("cleanup.policy", "compact")]);
    topic
}

pub(crate) fn store(db: &Outbox, topic: &str, value: Option<&str>) {
    let key = key(db);
    // Another connector's lies beside it.
    let other = OffsetKey::new("another", "server");
    kafka().produce(BaseRecord::to(topic).key(other.as_bytes()).payload(b"{}".as_slice()));
    let record = BaseRecord::to(topic).key(key.as_bytes());
    kafka().produce(match value {
        Some(value) => record.payload(value.as_bytes()),
        None => record,
    });
}

pub(crate) fn config(db: &Outbox, more: &[(&str, &str)]) -> Config {
    let config = with(db.config(kafka()), &[("name", db.name()), ("snapshot.mode", "initial")]);
    with(config, more)
}

fn numbers(db: &Outbox) -> Vec<u32> {
    let records = kafka().records(&db.topic("order"));
    let number =
        |value: &str| serde_json::from_str::<serde_json::Value>(value).unwrap()["n"].as_u64().unwrap();
    records.iter().map(|record| u32::try_from(number(record.value())).unwrap()).collect()
}

/// Runs the relay over all that the slot has and stops it; the rows that it sent.
pub(crate) fn relay_all(db: &Outbox, config: &Config) -> Vec<u32> {
    let before = numbers(db).len();
    let relay = Relay::start(config);
    db.wait_until_streaming();
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    numbers(db).split_off(before)
}

/// Commits interleaved rows of two transactions, a transaction of four rows, and a COPY.
fn transactions(db: &Outbox) {
    let insert = |n: u32| {
        format!(
            "INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'o-1', 'OrderCreated', jsonb_build_object('n', {n}));"
        )
    };
    let long = crate::support::session::Session::new(db.address().clone());
    long.execute("BEGIN");
    long.execute(&insert(10));
    db.execute(&insert(1));
    db.execute(&insert(2));
    long.execute(&insert(11));
    long.execute(&insert(12));
    long.execute("COMMIT");
    let rows: Vec<_> =
        (20..24).map(|n| format!("(gen_random_uuid(), 'order', 'o-1', 'T', '{{\"n\": {n}}}')")).collect();
    db.execute(&format!("INSERT INTO outbox VALUES {}", rows.join(", ")));
    copy(db, 30..34);
}

/// Commits rows that share an LSN.
fn copy(db: &Outbox, numbers: std::ops::Range<u32>) {
    db.execute(&format!(
        "CREATE TABLE IF NOT EXISTS staging (LIKE outbox); TRUNCATE staging;
         INSERT INTO staging SELECT gen_random_uuid(), 'order', 'o-1', 'T', jsonb_build_object('n', n)
         FROM generate_series({}, {} - 1) n",
        numbers.start, numbers.end
    ));
    let file = format!("/tmp/outboxd-copy-{}", db.name());
    db.execute(&format!("COPY staging TO '{file}'"));
    db.execute(&format!("COPY outbox FROM '{file}'"));
    fs::remove_file(file).ok();
}

#[test]
fn what_debezium_has_sent_is_not_sent_again_wherever_it_stopped() {
    // In PostgreSQL 15 inside a transaction and a COPY; in 18 at every kind of place.
    for (server, stops) in [(postgres15(), &[3, 10][..]), (postgres18(), &[0, 1, 2, 4, 6, 8, 9, 11])] {
        let db = Outbox::create(server);
        debezium_was_here(&db);
        transactions(&db);
        let (topic, places) = (offset_topic(&db), places(&db));
        let order: Vec<_> = places.iter().map(|place| place.n).collect();
        assert_eq!(order, [1, 2, 10, 11, 12, 20, 21, 22, 23, 30, 31, 32, 33]);
        for index in stops {
            let (name, last) = (format!("{}_{index}", db.name()), &places[*index]);
            db.query("SELECT pg_copy_logical_replication_slot($1, $2)", &[&db.name(), &name]);
            store(&db, &topic, Some(&last.offset()));
            let relay = config(&db, &[("offset.storage.topic", &topic), ("slot.name", &name)]);
            let sent = relay_slot(&db, &relay, &name);
            // Of the rows at one LSN only the first is known to have been sent.
            let shared =
                places.iter().filter(|place| place.lsn == last.lsn && place.commit_end == last.commit_end);
            let known = shared.map(|place| place.n).next().unwrap();
            let expected: Vec<_> = order.iter().skip_while(|n| **n != known).skip(1).copied().collect();
            assert_eq!(sent, expected, "after row {}", last.n);
        }
    }
}

/// Runs the relay like [`relay_all`], with a slot of another name.
fn relay_slot(db: &Outbox, config: &Config, slot: &str) -> Vec<u32> {
    let before = numbers(db).len();
    run_slot(db, config, slot);
    numbers(db).split_off(before)
}

/// Runs the relay over all that the slot has, and drops it.
fn run_slot(db: &Outbox, config: &Config, slot: &str) {
    let target = db.current_wal_lsn();
    let relay = Relay::start(config);
    eventually_some(DEADLINE, "the slot is confirmed", || {
        let sql = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1";
        let confirmed: Lsn = db.query(sql, &[&slot])[0].get::<_, &str>(0).parse().unwrap();
        (confirmed >= target).then_some(())
    });
    assert_eq!(relay.stop(), 0);
    db.query("SELECT pg_drop_replication_slot($1)", &[&slot]);
}

#[test]
fn the_offset_of_the_topic_follows_and_never_goes_back() {
    let db = Outbox::create(postgres18());
    debezium_was_here(&db);
    let topic = offset_topic(&db);
    db.insert(&[event(1)]);
    db.insert(&[event(2)]);
    let first = places(&db)[0].offset();
    store(&db, &topic, Some(&first));
    let config = config(&db, &[("offset.storage.topic", &topic), ("offset.flush.interval.ms", "100")]);
    let relay = Relay::start(&config);
    kafka().read(&db.topic("order"), 1);
    db.wait_until_confirmed();
    let stored = |at_least: Lsn| {
        eventually_some(DEADLINE, "an offset is stored", || {
            newest(&db, &topic).filter(|o| o.lsn_commit >= Some(at_least))
        })
    };
    let second = stored(Lsn::new(places_end(&first)));
    assert_eq!(second.message_type, Some(MessageType::Commit));
    assert!(second.tx_id.is_some() && second.committed_at.is_some(), "{second}");
    db.insert(&[event(3)]);
    kafka().read(&db.topic("order"), 2);
    let confirmed = db.wait_until_confirmed();
    stored(confirmed);
    assert_eq!(relay.stop(), 0);
    let last = newest(&db, &topic).unwrap();
    assert_eq!(
        last.lsn_commit,
        db.slot().unwrap().confirmed_flush_lsn,
        "what is stored at a stop is what is confirmed"
    );
    // No row has such an LSN: Debezium then begins with the first row of the next transaction.
    assert_eq!(last.lsn_proc, Some(Lsn::new(last.lsn_commit.unwrap().get() - 1)));
    assert_eq!(numbers(&db), [2, 3]);

    // A slot that PostgreSQL has reset to an earlier position in a crash: repeats of its rows are skipped.
    db.insert(&[event(4)]);
    assert_eq!(relay_all(&db, &config), [4]);
}

/// Returns the position of an offset in its text.
fn places_end(offset: &str) -> u64 {
    SourceOffset::parse(offset.as_bytes()).unwrap().lsn_proc.unwrap().get()
}

/// Returns the last value of our key, in the one partition that has any.
fn newest(db: &Outbox, topic: &str) -> Option<SourceOffset> {
    let key = key(db);
    let records = kafka().records(topic);
    let ours: Vec<_> = records.iter().filter(|record| record.key() == key.to_string()).collect();
    assert!(ours.windows(2).all(|pair| pair[0].place().1 == pair[1].place().1), "in more than one partition");
    SourceOffset::parse(ours.last()?.value().as_bytes()).ok()
}

#[test]
fn the_file_of_debezium_server_is_taken_over_and_written() {
    let db = Outbox::create(postgres18());
    debezium_was_here(&db);
    db.insert(&[event(1)]);
    db.insert(&[event(2)]);
    let folder = Watcher::new("outboxd-offsets-");
    let path = folder.folder().join("offsets.dat");
    let recorded = include_bytes!("../golden/offsets/debezium-server-3.6.0.dat");
    let mut map = OffsetMap::parse(recorded).unwrap();
    map.insert(key(&db).as_bytes(), places(&db)[0].offset().into_bytes());
    fs::write(&path, map.to_bytes()).unwrap();
    let file = [("offset.storage.file.filename", path.to_str().unwrap())];
    assert_eq!(relay_all(&db, &config(&db, &file)), [2]);
    let map = OffsetMap::parse(&fs::read(&path).unwrap()).unwrap();
    let stored = SourceOffset::parse(map.get(key(&db).as_bytes()).unwrap()).unwrap();
    assert_eq!(stored.lsn_commit, db.slot().unwrap().confirmed_flush_lsn);
    assert!(map.get(br#"["kafka",{"server":"srv"}]"#).is_some(), "the other connector's is kept");

    fs::write(&path, &recorded[..100]).unwrap();
    let mut relay = Relay::start(&config(&db, &file));
    assert_eq!(relay.wait_for_exit(Duration::from_secs(20)), 3);
    assert!(relay.stderr().contains("is not a file of stored offsets"), "{}", relay.stderr());
}

#[test]
fn an_offset_that_does_not_belong_here_is_refused_or_has_no_effect() {
    let db = Outbox::create(postgres18());
    debezium_was_here(&db);
    db.insert(&[event(1)]);
    let topic = offset_topic(&db);
    let config = config(&db, &[("offset.storage.topic", &topic)]);
    let offset = |lsn: u64, us: i64| {
        json!({ "lsn_proc": lsn, "messageType": "COMMIT", "lsn_commit": lsn, "lsn": lsn, "txId": 5, "ts_usec": us })
            .to_string()
    };
    // Ahead of the WAL: another server's.
    store(&db, &topic, Some(&offset(1 << 50, 1_795_219_241_069_695)));
    let mut relay = Relay::start(&config);
    assert_eq!(relay.wait_for_exit(Duration::from_secs(30)), 3);
    assert!(relay.stderr().contains("beyond the end of the server's WAL"), "{}", relay.stderr());
    assert!(relay.stderr().contains("curl -X DELETE"), "{}", relay.stderr());

    // Of a history that ended before a backup was restored: the WAL has grown past it meanwhile.
    store(&db, &topic, Some(&offset(db.current_wal_lsn().get(), 1_600_000_000_000_000)));
    assert_eq!(relay_all(&db, &config), [1]);

    // Far behind the slot; and reset.
    db.insert(&[event(2)]);
    store(&db, &topic, Some(&offset(8, 1_795_219_241_069_695)));
    assert_eq!(relay_all(&db, &config), [2]);
    db.insert(&[event(3)]);
    store(&db, &topic, None);
    assert_eq!(relay_all(&db, &config), [3]);

    // Of a logical message outside a transaction, as heartbeats write them: it has neither transaction nor time.
    db.insert(&[event(4)]);
    let wal_end = db.current_wal_lsn().get();
    let message =
        json!({ "lsn_proc": wal_end, "messageType": "MESSAGE", "lsn_commit": wal_end, "lsn": wal_end });
    store(&db, &topic, Some(&message.to_string()));
    assert_eq!(relay_all(&db, &config), [0; 0]);

    // Without its slot: a new one would begin behind a gap.
    db.query("SELECT pg_drop_replication_slot($1)", &[&db.name()]);
    let mut relay = Relay::start(&config);
    assert_eq!(relay.wait_for_exit(Duration::from_secs(30)), 7);
    assert!(relay.stderr().contains("slot.recovery=snapshot"), "{}", relay.stderr());
    assert!(db.slot().is_none());

    let missing = with(config, &[("offset.storage.topic", "there-is-no-such-topic")]);
    assert_eq!(Relay::start(&missing).wait_for_exit(Duration::from_secs(30)), 3);
    assert!(kafka().topics("there-is-no-such").is_empty(), "asking must not make it");
}

#[test]
fn an_unfinished_snapshot_is_begun_again_and_a_finished_one_is_not() {
    let unfinished = r#"{"last_snapshot_record":false,"lsn":70485024,"txId":848,"ts_usec":1795219937623288,"snapshot":"INITIAL","snapshot_completed":false}"#;
    let completed = unfinished.replace("false", "true");
    for (value, mode, expected) in [
        (unfinished, "initial", vec![1, 2]),
        (unfinished, "no_data", vec![2]),
        (&completed, "initial", vec![2]),
    ] {
        let db = Outbox::create(postgres18());
        db.insert(&[event(1)]);
        debezium_was_here(&db);
        let (topic, value) = (offset_topic(&db), at_zero(value));
        store(&db, &topic, Some(&value));
        let config = config(&db, &[("offset.storage.topic", &topic), ("snapshot.mode", mode)]);
        let relay = Relay::start(&config);
        db.wait_until_streaming();
        if expected.len() > 1 {
            relay.wait_for_snapshot();
        }
        db.insert(&[event(2)]);
        kafka().read(&db.topic("order"), expected.len());
        assert_eq!(relay.stop(), 0);
        assert_eq!(numbers(&db), expected, "{mode} after {value}");
    }
}

/// Returns the recorded offset, with a position that this server's WAL has.
fn at_zero(offset: &str) -> String {
    offset.replace("70485024", "8")
}

/// Of change events the same holds, whatever the operation: each has its own place in the WAL.
#[test]
fn change_events_that_debezium_has_sent_are_not_sent_again() {
    let db = Outbox::create_bare(postgres18(), "CREATE TABLE stock (id int PRIMARY KEY, n int)");
    kafka().create_topic(&format!("{}.public.stock", db.name()), 1, &[]);
    db.execute(&format!("CREATE PUBLICATION {} FOR TABLE stock", db.name()));
    db.query("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", &[&db.name()]);
    db.execute("BEGIN; INSERT INTO stock VALUES (1, 1); INSERT INTO stock VALUES (2, 2); COMMIT");
    db.execute("BEGIN; UPDATE stock SET n = 3 WHERE id = 1; DELETE FROM stock WHERE id = 2; COMMIT");
    db.execute("BEGIN; UPDATE stock SET id = 4 WHERE id = 1; INSERT INTO stock VALUES (5, 5); COMMIT");
    let topic = offset_topic(&db);
    let expected = [
        r#"c {"id":1}"#,
        r#"c {"id":2}"#,
        r#"u {"id":1}"#,
        r#"d {"id":2}"#,
        r#"- {"id":2}"#,
        r#"d {"id":1}"#,
        r#"- {"id":1}"#,
        r#"c {"id":4}"#,
        r#"c {"id":5}"#,
    ];
    // How many of them stand behind each change.
    for (index, left) in [(0, 8), (1, 7), (2, 6), (3, 4), (4, 1), (5, 0)] {
        let name = format!("{}_{index}", db.name());
        db.query("SELECT pg_copy_logical_replication_slot($1, $2)", &[&db.name(), &name]);
        store(&db, &topic, Some(&changes(&db)[index].offset()));
        let config = of_changes(&db, &[("offset.storage.topic", &topic), ("slot.name", &name)]);
        let seen = told(&db).len();
        run_slot(&db, &config, &name);
        assert_eq!(told(&db).split_off(seen), expected[expected.len() - left..], "after change {index}");
    }
}

/// Returns a configuration without an EventRouter: changes of every table are events, as JSON without schemas.
pub(crate) fn of_changes(db: &Outbox, more: &[(&str, &str)]) -> Config {
    let mut config = config(db, more);
    config.retain(|key, _| !key.starts_with("transforms") && key != "table.include.list");
    let json = "org.apache.kafka.connect.json.JsonConverter";
    let plain = [
        ("key.converter", json),
        ("key.converter.schemas.enable", "false"),
        ("value.converter", json),
        ("value.converter.schemas.enable", "false"),
    ];
    with(config, &plain)
}

/// Returns operation (`-` for a tombstone) and key of each record of the table.
pub(crate) fn told(db: &Outbox) -> Vec<String> {
    let records = kafka().records(&format!("{}.public.stock", db.name()));
    let operation = |record: &Record| {
        let Some(value) = &record.value else { return "-".to_owned() };
        let value: serde_json::Value = serde_json::from_slice(value).unwrap();
        value["op"].as_str().unwrap().to_owned()
    };
    records.iter().map(|record| format!("{} {}", operation(record), record.key())).collect()
}
