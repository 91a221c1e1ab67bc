//! Content of a transaction, in every shape and size.

use outboxd::internals::throwaway::ThrowawayPostgres;

use crate::support::backlog::Backlog;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::{Relay, with};
use crate::support::session::Session;
use crate::support::withheld::Withheld;

const MIB: u64 = 1 << 20;

#[test]
fn a_row_that_is_deleted_in_its_transaction_is_published_once() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        let _relay = start(&db);
        let ids = ["11111111-0000-4000-8000-000000000000", "22222222-0000-4000-8000-000000000000"];
        for id in ids {
            db.execute(&format!("BEGIN; {}; DELETE FROM outbox WHERE id = '{id}'; COMMIT", insert(id)));
        }
        db.wait_until_confirmed();
        assert_eq!(published_ids(&db), ids);
        assert!(db.query("SELECT FROM outbox", &[]).is_empty());
    }
}

#[test]
fn what_is_rolled_back_is_never_published() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        let _relay = start(&db);
        let [kept, lost, also_kept, aborted, last] =
            [1, 2, 3, 4, 5].map(|n| format!("{n}0000000-0000-4000-8000-000000000000"));
        db.execute(&format!("BEGIN; {}; ROLLBACK", insert(&aborted)));
        db.execute(&format!(
            "BEGIN; {}; SAVEPOINT before; {}; ROLLBACK TO before; {}; COMMIT",
            insert(&kept),
            insert(&lost),
            insert(&also_kept)
        ));
        db.execute(&insert(&last));
        db.wait_until_confirmed();
        assert_eq!(published_ids(&db), [kept, also_kept, last]);
    }
}

#[test]
fn the_rows_of_a_copy_share_an_lsn_and_all_arrive_in_order() {
    for server in [postgres15(), postgres18()] {
        let (db, backlog) = (Outbox::create(server), Backlog { key_count: 7 });
        let _relay = start(&db);
        copy(&db, server, backlog, 1000);
        let records = kafka().read(&db.topic(Backlog::TYPE), 1000);
        assert_eq!(backlog.check(&records, 0..1000), 0, "repeats");
    }
}

#[test]
fn a_relay_killed_inside_a_copy_loses_none_of_its_rows() {
    let (db, backlog) = (Outbox::create(postgres18()), Backlog { key_count: 7 });
    let topic = db.topic(Backlog::TYPE);
    let config = with(db.config(kafka()), &[("outboxd.inflight.records.max", "3")]);
    let link = Withheld::from(&config, &Backlog::payload(4_000));
    let mut relay = Relay::start(link.config());
    db.wait_until_streaming();
    copy(&db, postgres18(), backlog, 5_000);
    kafka().wait_for_count(&topic, 100);
    relay.kill();
    let _relay = Relay::start(&db.config(kafka()));
    db.wait_until_streaming();
    db.wait_until_confirmed();
    let repeats = backlog.check(&kafka().records(&topic), 0..5_000);
    assert!(
        repeats >= 100,
        "the transaction was not confirmed, so it comes again from its beginning: {repeats}"
    );
}

#[test]
fn memory_does_not_grow_with_the_size_of_a_transaction() {
    let (db, backlog) = (Outbox::create(postgres18()), Backlog { key_count: 1000 });
    let relay = Relay::start(&with(db.config(kafka()), &[("outboxd.inflight.records.max", "1000")]));
    db.wait_until_streaming();
    backlog.insert(&db, 0..1000, 1000);
    db.wait_until_confirmed();
    let small = relay.peak_memory_bytes();
    backlog.insert(&db, 1000..101_000, 100_000);
    db.wait_until_confirmed();
    let large = relay.peak_memory_bytes();
    let records = kafka().records(&db.topic(Backlog::TYPE));
    assert_eq!(backlog.check(&records, 0..101_000), 0, "repeats");
    assert!(large < 80 * MIB, "{} MiB", large / MIB);
    assert!(
        large < small + 16 * MIB,
        "{} MiB after 1000 rows, {} MiB after 100000",
        small / MIB,
        large / MIB
    );
}

/// What is in headers counts like what is in values.
#[test]
fn memory_has_its_limit_with_large_headers_too() {
    let db = Outbox::create(postgres18());
    db.execute("ALTER TABLE outbox ADD note text");
    let settings = [
        ("transforms.outbox.table.fields.additional.placement", "note:header"),
        ("outboxd.inflight.bytes.max", "4194304"),
    ];
    let relay = Relay::start(&with(db.config(kafka()), &settings));
    db.wait_until_streaming();
    db.execute(
        "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, note)
         SELECT gen_random_uuid(), 'order', n::text, 'E', '{}', repeat('x', 100000) FROM generate_series(1, 4000) AS n",
    );
    db.wait_until_confirmed();
    let peak = relay.peak_memory_bytes();
    assert!(peak < 120 * MIB, "{} MiB", peak / MIB);
    assert_eq!(relay.stop(), 0);
}

#[test]
fn transactions_come_in_commit_order() {
    let db = Outbox::create(postgres18());
    let _relay = start(&db);
    let other = Session::new(db.address().clone());
    other.execute(&format!("BEGIN; {}", insert("10000000-0000-4000-8000-000000000000")));
    db.insert(&[Event::new("order", "o-1", "OrderPaid", "{}")]);
    other.execute("COMMIT");
    db.wait_until_confirmed();
    let records = kafka().records(&db.topic("order"));
    let kinds: Vec<_> = records.iter().map(|record| record.header("id").starts_with("1000")).collect();
    assert_eq!(kinds, [false, true], "the one that began first has committed last");
}

fn start(db: &Outbox) -> Relay {
    let relay = Relay::start(&db.config(kafka()));
    db.wait_until_streaming();
    relay
}

fn insert(id: &str) -> String {
    format!("INSERT INTO outbox VALUES ('{id}', 'order', 'o-1', 'OrderCreated', '{{}}')")
}

fn published_ids(db: &Outbox) -> Vec<String> {
    let records = kafka().records(&db.topic("order"));
    records.iter().map(|record| record.header("id").to_owned()).collect()
}

/// Puts a backlog into the outbox with one COPY.
fn copy(db: &Outbox, server: &ThrowawayPostgres, backlog: Backlog, count: u64) {
    let file = server.folder().join(format!("data/{}.copy", db.name()));
    let file = file.display();
    db.execute(&format!(
        "COPY (SELECT gen_random_uuid(), '{}', 'k' || n % {}, 'Numbered', jsonb_build_object('n', n)
               FROM generate_series(0, {count} - 1) AS n) TO '{file}'",
        Backlog::TYPE,
        backlog.key_count
    ));
    db.execute(&format!("COPY outbox FROM '{file}'"));
}
