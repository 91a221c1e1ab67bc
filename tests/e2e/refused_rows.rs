//! A row that cannot be sent stops the relay: everything before it is delivered, nothing behind it.

use pg_replication::wal::Lsn;

use crate::support::backlog::Backlog;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::record::Record;
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::DEADLINE;

#[test]
fn nothing_is_written_behind_a_record_that_is_too_large() {
    let db = Outbox::create(postgres18());
    let topic = db.topic("order");
    kafka().create_topic(&topic, 1, &[("max.message.bytes", "20000")]);
    prepare_slot(&db);
    let events: Vec<_> = (0..500).map(|n| Event::new("order", "o-1", "Numbered", &payload(n))).collect();
    events.chunks(5).for_each(|events| db.insert(events));
    // Batches below the limit: the large record travels alone, with others behind it on the way.
    let config = with(db.config(kafka()), &[("producer.batch.size", "5000")]);
    let expected: Vec<_> = events.iter().map(|event| event.id.to_string()).collect();
    // The large record comes behind others that are written, then at the head of all.
    let mut said = String::new();
    for start in ["first", "second"] {
        said = stop_at_row(&config, &[&topic, "max.message.bytes"]);
        assert_eq!(ids(&kafka().records(&topic)), expected[..10], "after the {start} start");
    }

    let (_, line) = said.split_once("kafka-configs.sh ").unwrap();
    let line = format!("kafka-configs.sh {}", line.split(';').next().unwrap());
    kafka().run_tool(&line.replace("BYTES", "1000000"));
    let _relay = Relay::start(&db.config(kafka()));
    db.wait_until_confirmed();
    assert_eq!(ids(&kafka().records(&topic)), expected, "no gap and no repeat");
}

#[test]
fn a_record_that_is_too_large_alone_spares_those_before_it() {
    let db = Outbox::create(postgres15());
    let topic = db.topic("order");
    kafka().create_topic(&topic, 1, &[("max.message.bytes", "20000")]);
    let mut relay = Relay::start(&db.config(kafka()));
    db.wait_until_streaming();
    db.insert(&[Event::new("order", "o-1", "Small", "{}")]);
    kafka().read(&topic, 1);
    db.insert(&[
        Event::new("order", "o-1", "Large", &payload(10)),
        Event::new("order", "o-1", "Small", "{}"),
    ]);
    db.insert(&[Event::new("order", "o-1", "Small", "{}")]);
    assert_eq!(relay.wait_for_exit(DEADLINE), 6);
    assert_eq!(kafka().records(&topic).len(), 1);
}

#[test]
fn a_row_without_a_route_stops_the_relay_behind_what_came_before() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        db.execute("ALTER TABLE outbox ALTER COLUMN aggregatetype DROP NOT NULL");
        prepare_slot(&db);
        let backlog = Backlog { key_count: 3 };
        backlog.insert(&db, 0..300, 10);
        let before = db.current_wal_lsn();
        let lost = "INSERT INTO outbox VALUES (gen_random_uuid(), NULL, 'o-1', 'Lost', '{}')
                    RETURNING id::text, pg_current_xact_id()::text";
        let lost = &db.query(lost, &[])[0];
        let (id, xid): (String, String) = (lost.get(0), format!("(xid {})", lost.get::<_, &str>(1)));
        backlog.insert(&db, 300..310, 1);
        // Once more: what was delivered the first time is confirmed, so that it does not come again.
        for start in ["first", "second"] {
            let names = ["public.outbox", "aggregatetype", "route.by.field", id.as_str(), xid.as_str()];
            let said = stop_at_row(&db.config(kafka()), &names);
            assert!(commit_lsn(&said) > before, "{said}");
            let records = kafka().records(&db.topic(Backlog::TYPE));
            assert_eq!(backlog.check(&records, 0..300), 0, "repeats after the {start} start");
        }
    }
}

/// Returns a payload. The tenth is larger than the topic allows.
fn payload(n: u32) -> String {
    format!("{{\"n\": \"{}\"}}", "x".repeat(if n == 10 { 100_000 } else { 10 }))
}

/// Makes the slot, so that what is inserted from now on is streamed by the next relay.
fn prepare_slot(db: &Outbox) {
    let relay = Relay::start(&db.config(kafka()));
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
}

#[track_caller]
fn stop_at_row(config: &Config, names: &[&str]) -> String {
    let mut relay = Relay::start(config);
    let exit = relay.wait_for_exit(DEADLINE);
    let said = relay.stderr();
    assert_eq!(exit, 6, "{said}");
    names.iter().for_each(|name| assert!(said.contains(name), "{name}: {said}"));
    said
}

/// Returns the commit LSN that a message names.
pub(crate) fn commit_lsn(said: &str) -> Lsn {
    let (_, after) = said.split_once("committed at ").expect("names the transaction");
    after.split(' ').next().unwrap().parse().unwrap()
}

fn ids(records: &[Record]) -> Vec<String> {
    records.iter().map(|record| record.header("id").to_owned()).collect()
}
