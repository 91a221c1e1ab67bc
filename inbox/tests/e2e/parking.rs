//! Keys that wait in the table.

use crate::process::Process;
use crate::shop::{Payment, Shop, payments};
use crate::support::kafka::kafka;
use crate::support::postgres::postgres18;
use crate::support::wait::{DEADLINE, eventually, eventually_eq};

#[test]
fn what_is_parked_survives_a_kill_and_is_handled_in_order_while_offsets_continue() {
    let shop = Shop::open(postgres18(), kafka());
    let mut events = payments(300, 10);
    events[31].fail = "once";
    events[42].fail = "always";
    shop.produce(&events);
    let waits = ["--retry", "none", "--park"];
    let first = shop.start(&[&waits[..], &["10m"]].concat());
    shop.wait_until_committed();
    first.kill();
    // All events of the other keys, and those that come before in the two.
    assert_eq!((shop.applied_count(), shop.parked_count()), (240 + 3 + 4, 27 + 26));
    shop.execute("UPDATE inbox_parked SET not_before = now()");
    let second = shop.start(&[&waits[..], &["1s"]].concat());
    let dead = shop.wait_for_dead_letters(1);
    shop.wait_for_applied(299);
    eventually_eq(DEADLINE, &0, || shop.parked_count());
    second.stop();
    let given_up = events.remove(42);
    assert_eq!(dead[0].header("id"), given_up.id);
    shop.check(&events);
}

#[test]
fn a_key_waits_behind_its_dead_letter_until_it_is_released() {
    let shop = Shop::open(postgres18(), kafka());
    let mut events = payments(100, 5);
    events[22].fail = "always";
    shop.produce(&events);
    let waits = ["--retry", "none", "--key-waits"];
    let consumer = shop.start(&waits);
    shop.wait_for_dead_letters(1);
    shop.wait_until_committed();
    // Four events of the key come before the dead letter, 15 after it.
    eventually_eq(DEADLINE, &(80 + 4, 15 + 1), || (shop.applied_count(), shop.parked_count()));
    let mut release = shop.start(&["--release", "2"]);
    assert!(release.wait_for_exit().success(), "{}", release.log());
    shop.wait_for_applied(99);
    eventually_eq(DEADLINE, &0, || shop.parked_count());
    consumer.stop();
    events.remove(22);
    shop.check(&events);
}

/// Starts a consumer of these events, whose key `2` waits behind a dead letter that was sent again.
pub(crate) fn behind_a_dead_letter(shop: &Shop<'_>) -> (Process, Vec<Payment>) {
    let mut events = payments(100, 5);
    events[22].fail = "always";
    shop.produce(&events);
    let consumer = shop.start(&["--retry", "none", "--key-waits"]);
    shop.wait_for_dead_letters(1);
    // Four events of the key come before the dead letter, 15 after it.
    eventually_eq(DEADLINE, &(80 + 4, 15 + 1), || (shop.applied_count(), shop.parked_count()));
    events[22].fail = "no";
    shop.produce(&events[22..23]);
    eventually_eq(DEADLINE, &(15 + 2), || shop.parked_count());
    (consumer, events)
}

#[test]
fn a_dead_letter_that_was_sent_again_is_handled_at_its_place_when_its_key_is_released() {
    let shop = Shop::open(postgres18(), kafka());
    let (consumer, events) = behind_a_dead_letter(&shop);
    let mut release = shop.start(&["--release", "2"]);
    assert!(release.wait_for_exit().success(), "{}", release.log());
    shop.wait_for_applied(100);
    eventually_eq(DEADLINE, &0, || shop.parked_count());
    consumer.stop();
    // In the order of their numbers.
    shop.check(&events);
}

#[test]
fn what_is_parked_goes_with_its_partition() {
    let shop = Shop::open(postgres18(), kafka());
    let mut events = payments(600, 12);
    for event in &mut events[60..72] {
        event.fail = "once";
    }
    shop.produce(&events[..300]);
    let waits = ["--retry", "none", "--park", "20s"];
    let first = shop.start(&waits);
    shop.wait_until_committed();
    // All keys are parked. On a slow machine the 20 s of the first ones may be over, and their events applied. The second consumer
    // continues some of the others, and the third those that the first one leaves.
    let counts =
        shop.query("SELECT (SELECT count(*) FROM applied), (SELECT count(*) FROM inbox_parked)", &[]);
    let (applied, parked): (i64, i64) = (counts[0].get(0), counts[0].get(1));
    assert!(applied + parked == 300 && parked >= 25, "{applied} are applied and {parked} parked");
    let second = shop.start(&waits);
    shop.produce(&events[300..]);
    eventually(DEADLINE, "it has a partition", || second.log().contains("a partition is assigned"));
    let third = shop.start(&waits);
    first.kill();
    shop.wait_for_applied(600);
    eventually_eq(DEADLINE, &0, || shop.parked_count());
    second.stop();
    third.stop();
    shop.check(&events);
}

/// Invariant: parked events are not mixed up with the records of a topic that was created again, which have their offsets.
#[test]
fn what_was_parked_of_a_topic_that_was_created_again_is_handled_too() {
    let shop = Shop::open(postgres18(), kafka());
    let mut events = payments(60, 6);
    events[6].fail = "once";
    let waits = ["--retry", "none", "--park", "10m"];
    shop.produce(&events[..30]);
    let first = shop.start(&waits);
    shop.wait_until_committed();
    first.stop();
    // Five events of each key are in either topic.
    assert_eq!((shop.applied_count(), shop.parked_count()), (30 - 4, 4));
    kafka().delete_topic(&shop.topic());
    kafka().create_topic(&shop.topic(), 3, &[]);
    shop.produce(&events[30..]);
    let second = shop.start(&waits);
    eventually_eq(DEADLINE, &(4 + 5), || shop.parked_count());
    shop.wait_until_committed();
    second.stop();
    shop.execute("UPDATE inbox_parked SET not_before = now()");
    let third = shop.start(&waits);
    shop.wait_for_applied(60);
    eventually_eq(DEADLINE, &0, || shop.parked_count());
    third.stop();
    shop.check(&events);
}
