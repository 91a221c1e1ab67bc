//! Reasons that excuse a row without a record, and reasons that do not.

use super::answer::{Answer, produce_again};
use super::{NO, YES, advance, event, relay};
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::{self, postgres18};
use crate::support::relay::{Relay, with};

#[test]
fn commit_times_show_age_and_order_where_they_are_stored() {
    let server = postgres::start_with(18, &[("track_commit_timestamp", "on")]);
    let db = Outbox::create(&server);
    let config = db.config(kafka());
    let topic = db.topic("order");
    kafka().create_topic(&topic, 1, &[]);
    let [old, new] = ["1", "2"].map(|n| event("k", &format!("{{\"n\": {n}}}")));
    db.insert(std::slice::from_ref(&old));
    // Commit times distinguish transactions that are more than a second apart.
    db.query("SELECT pg_sleep(2.1)", &[]);
    let between = &db.query("SELECT (now() - interval '1 second')::text", &[])[0];
    db.insert(std::slice::from_ref(&new));
    relay(&db, &config);
    let records = kafka().read(&topic, 2);
    let answer = Answer::of(&config, &["--since", between.get(0)]);
    answer.assert(YES, &[]);
    assert_eq!(answer.count("rows"), 1);
    let answer = Answer::of(&config, &["--until", between.get(0)]);
    assert_eq!((answer.exit, answer.count("rows")), (YES, 1));
    kafka().delete_records(&topic, 0, 2);
    for record in records.iter().rev() {
        produce_again(record, None);
    }
    let answer = Answer::of(&config, &[]);
    answer.assert(NO, &[("out_of_order", &old)]);
    // The oldest record is gone, and its row is older than what is there. That excuses it only if the brokers may have deleted it by its age.
    kafka().delete_records(&topic, 0, 4);
    produce_again(&records[1], None);
    Answer::of(&config, &[]).assert(NO, &[("missing", &old)]);
    kafka().alter_topic(&topic, ("retention.ms", "1000"));
    let answer = Answer::of(&config, &[]);
    assert_eq!(
        (answer.exit, answer.count("expired"), answer.count("sent")),
        (YES, 1, 1),
        "{:#}",
        answer.json
    );
}

/// Compaction keeps the newest record of a key, so that one is lost.
#[test]
fn compaction_excuses_only_what_has_a_later_record_of_its_key() {
    let db = Outbox::create(postgres18());
    db.execute("ALTER TABLE outbox ADD COLUMN number bigserial");
    let (config, topic) = (with(db.config(kafka()), &[("outboxd.position.topic", "")]), db.topic("order"));
    kafka().create_topic(&topic, 1, &[("cleanup.policy", "compact,delete")]);
    let [first, second, third] = ["1", "2", "3"].map(|n| event("k", &format!("{{\"n\": {n}}}")));
    db.insert(std::slice::from_ref(&first));
    db.insert(std::slice::from_ref(&second));
    relay(&db, &config);
    kafka().delete_records(&topic, 0, 1);
    let running = Relay::start(&config);
    db.wait_until_streaming();
    let answer = Answer::of(&config, &["--order-by", "number"]);
    answer.assert(YES, &[]);
    assert_eq!(answer.count("compacted"), 1);
    // No column determines which of two rows is the newest.
    Answer::of(&config, &[]).assert(NO, &[("missing", &first)]);
    assert_eq!(running.stop(), 0);
    db.insert(std::slice::from_ref(&third));
    advance(&db);
    relay(&db, &config);
    let running = Relay::start(&config);
    db.wait_until_streaming();
    let answer = Answer::of(&config, &["--order-by", "number"]);
    answer.assert(NO, &[("missing", &third)]);
    assert_eq!(answer.count("compacted"), 1);
    assert_eq!(running.stop(), 0);
}
