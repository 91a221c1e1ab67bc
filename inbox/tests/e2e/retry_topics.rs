//! Events that wait in topics of their own.

use outboxd_inbox::dead_letter::DeadLetter;

use crate::shop::{Payment, Shop, payments};
use crate::support::kafka::kafka;
use crate::support::postgres::postgres18;

#[test]
fn what_fails_waits_in_its_topics_and_nothing_waits_for_it() {
    let shop = Shop::open(postgres18(), kafka());
    let mut events = payments(300, 10);
    events[31].fail = "once";
    events[42].fail = "always";
    shop.produce(&events);
    let topic = |wait| format!("{}.{}.retry.{wait}", shop.topic(), shop.name());
    for wait in ["2s", "3s"] {
        kafka().create_topic(&topic(wait), 1, &[]);
    }
    let consumer = shop.start(&["--retry", "none", "--retry-topics", "2s,3s"]);
    let dead = shop.wait_for_dead_letters(1);
    shop.wait_for_applied(299);
    shop.wait_until_committed();
    consumer.stop();
    assert_eq!((kafka().record_count(&topic("2s")), kafka().record_count(&topic("3s"))), (2, 1));

    let original = kafka().records(&shop.topic());
    let original = original.iter().find(|record| record.header("id") == events[42].id).unwrap();
    assert_eq!(
        (&dead[0].key, &dead[0].value, dead[0].header("outboxd.errors.timestamp")),
        (&original.key, &original.value, original.timestamp_ms.to_string().as_str())
    );
    let headers = || dead[0].headers.iter().map(|(name, value)| (name.as_str(), value.as_deref()));
    let own: Vec<&str> =
        headers().map(|(name, _)| name).filter(|name| !name.starts_with("outboxd.")).collect();
    assert_eq!(own, ["id"]);
    let letter = DeadLetter::read(headers()).unwrap();
    let origin = letter.origin.unwrap();
    let place = (origin.topic.as_str(), origin.partition.unwrap(), origin.offset.unwrap());
    assert_eq!((place, letter.attempts), (original.place(), Some(3)));

    // The one that failed once comes later than others of its key.
    events.remove(42);
    let late = events.remove(31);
    let place = shop.place_of(&late);
    assert!(place > shop.place_of(&events[40]), "{} waited for it", events[40].id);
    let is_after = |event: &Payment| event.customer == late.customer && shop.place_of(event) > place;
    let after = events.iter().position(is_after).unwrap_or(events.len());
    events.insert(after, late);
    shop.check(&events);
}
