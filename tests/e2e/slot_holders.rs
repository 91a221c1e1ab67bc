//! Another client streams from the slot.

use outboxd::internals::throwaway::unused_port;

use crate::printed_fixes::{fix_of, statements};
use crate::support::backlog::Backlog;
use crate::support::foreign::ForeignConsumer;
use crate::support::http::get_until;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::{Relay, with};
use crate::support::wait::{DEADLINE, eventually};
use crate::support::withheld::Withheld;

#[test]
fn a_slot_that_another_program_holds_is_refused_with_its_pid() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        let config = db.config(kafka());
        let relay = Relay::start(&config);
        db.wait_until_streaming();
        assert_eq!(relay.stop(), 0);
        let _foreign = ForeignConsumer::occupy(&db, "pg_recvlogical");
        let rows =
            db.query("SELECT active_pid FROM pg_replication_slots WHERE slot_name = $1", &[&db.name()]);
        let pid: i32 = rows[0].get(0);
        let mut relay = Relay::start(&config);
        assert_eq!(relay.wait_for_exit(DEADLINE), 3);
        let said = relay.stderr();
        for name in [db.name(), &pid.to_string(), "pg_recvlogical", "pg_terminate_backend"] {
            assert!(said.contains(name), "{name}: {said}");
        }
        let end = statements(&fix_of(&relay));
        assert_eq!(end.len(), 1, "{said}");
        db.execute(&end[0]);
        // A session that is ending counts as one that streams.
        eventually(DEADLINE, "the slot is free", || !db.slot().unwrap().active);
        let relay = Relay::start(&config);
        db.wait_until_streaming();
        assert_eq!(relay.stop(), 0);
    }
}

/// Rows of a service that mistakes another one for its own would be skipped.
#[test]
fn an_outboxd_of_another_service_does_not_stand_by() {
    let db = Outbox::create(postgres18());
    db.execute("CREATE TABLE other (LIKE outbox INCLUDING ALL)");
    db.execute(&format!("CREATE PUBLICATION {} FOR TABLE outbox, other", db.name()));
    let config = db.config(kafka());
    let _first = Relay::start(&config);
    db.wait_until_streaming();
    let prefix = format!("{}-other", db.name());
    for (difference, settings) in [
        ("other lists of tables", [("table.include.list", "public.other")]),
        ("another topic.prefix", [("topic.prefix", prefix.as_str())]),
        ("another name", [("name", "another")]),
    ] {
        let mut other = Relay::start(&with(config.clone(), &settings));
        assert_eq!(other.wait_for_exit(DEADLINE), 3, "{difference}: {}", other.stderr());
        let said = other.stderr();
        assert!(said.contains(difference) && said.contains("slot.name"), "{difference}: {said}");
    }
    // One of the same service does, whatever else is configured.
    let port = unused_port().unwrap();
    let same = with(config, &[("producer.linger.ms", "7")]);
    let second = Relay::start_with(&same, &["--http", &port.to_string()], &[]);
    get_until(port, "/status", "stands by", |page| page.json()["state"]["role"] == "standby");
    assert_eq!(second.stop(), 0);
}

#[test]
fn a_second_relay_stands_by_and_takes_over() {
    let (db, backlog) = (Outbox::create(postgres18()), Backlog { key_count: 50 });
    let topic = db.topic(Backlog::TYPE);
    let config = with(db.config(kafka()), &[("outboxd.inflight.records.max", "50")]);
    let link = Withheld::from(&config, &Backlog::payload(9_000));
    let mut first = Relay::start(link.config());
    db.wait_until_streaming();
    let port = unused_port().unwrap();
    let mut second = Relay::start_with(&config, &["--http", &port.to_string()], &[]);
    let page = get_until(port, "/readyz", "stands by", |page| page.body.contains("\"standby\""));
    assert_eq!(page.code, 200, "{}", page.body);
    assert!(page.body.contains("outboxd"), "names the holder: {}", page.body);

    first.pause();
    backlog.insert(&db, 0..10_000, 100);
    first.resume();
    kafka().wait_for_count(&topic, 500);
    first.kill();
    get_until(port, "/readyz", "has taken over", |page| page.code == 200 && page.body.contains("\"active\""));
    db.wait_until_confirmed();
    assert!(second.is_running());
    backlog.check(&kafka().records(&topic), 0..10_000);
}
