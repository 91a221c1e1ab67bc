//! Repeats that are known by their place in the WAL.

use crate::shop::{Shop, placed_payments};
use crate::support::kafka::kafka;
use crate::support::postgres::postgres18;
use crate::support::wait::{DEADLINE, eventually};

const POSITION: [&str; 4] = ["--dedupe", "position", "--retry", "none"];

fn count(shop: &Shop<'_>, table: &str) -> i64 {
    shop.query(&format!("SELECT count(*) FROM {table}"), &[])[0].get(0)
}

#[test]
fn what_the_relay_sends_again_is_applied_once_through_kills_and_moving_partitions() {
    let shop = Shop::open(postgres18(), kafka());
    let events = placed_payments(2000, 40);
    shop.produce(&events[..1500]);
    shop.produce(&events[1000..]);
    let first = shop.start(&[&POSITION[..], &["--batch", "5"]].concat());
    shop.wait_for_applied(300);
    let second = shop.start(&POSITION);
    shop.wait_for_applied(900);
    first.kill();
    shop.wait_for_applied(2000);
    shop.produce(&events[200..1200]);
    let third = shop.start(&POSITION);
    shop.wait_until_committed();
    second.stop();
    third.stop();
    shop.check(&events);
    assert_eq!(count(&shop, "inbox_message"), 0);
}

#[test]
fn what_comes_late_or_from_the_dead_letters_or_at_a_place_that_was_lost_is_applied() {
    let shop = Shop::open(postgres18(), kafka());
    let mut events = placed_payments(300, 10);
    let late = events.remove(205);
    events[47].fail = "always";
    shop.produce(&events);
    let consumer = shop.start(&POSITION);
    shop.wait_for_dead_letters(1);
    shop.wait_for_applied(298);
    // After a failover that lost transactions their places are used again.
    let mut lost = placed_payments(310, 10).split_off(300);
    lost.iter_mut().zip(150..).for_each(|(event, at)| event.position = Some(at));
    let mut repaired = events.remove(47);
    repaired.fail = "no";
    let others = [vec![late, repaired], lost].concat();
    shop.produce(&others);
    shop.produce(&others);
    shop.wait_until_committed();
    consumer.stop();
    events.extend(others);
    shop.check(&events);
}

#[test]
fn when_positions_do_not_identify_repeats_that_is_reported_and_ids_are_compared() {
    let shop = Shop::open(postgres18(), kafka());
    let mut events = placed_payments(320, 10);
    shop.produce(&events[..300]);
    let consumer = shop.start(&POSITION);
    shop.wait_for_applied(300);
    kafka().add_partitions(&shop.topic(), 4);
    // The key's events are in another partition now.
    shop.produce_to(3, &events[280..310]);
    shop.wait_for_applied(310);
    eventually(DEADLINE, "it is told", || consumer.log().contains("from now on ids are asked"));
    events[310..].iter_mut().for_each(|event| event.position = None);
    shop.produce_to(3, &events[290..]);
    shop.produce_to(3, &events[..50]);
    shop.wait_for_applied(320);
    consumer.stop();
    assert_eq!((count(&shop, "inbox_done"), count(&shop, "inbox_message")), (0, 320));
    shop.check(&events);
}

/// Adds partitions: a repeat goes to another partition than before as soon as the topic has more of them.
fn grow(knows_before: bool) {
    let shop = Shop::open(postgres18(), kafka());
    // One key: nothing else was done of the other partitions.
    let events = placed_payments(60, 1);
    shop.produce(&events[..40]);
    // It learns of new partitions when the test is over.
    let late = ["-X", "topic.metadata.refresh.interval.ms=3600000"];
    let start = || shop.start(&[&POSITION[..], &late].concat());
    let before = knows_before.then(start);
    if knows_before {
        shop.wait_for_applied(40);
    }
    kafka().add_partitions(&shop.topic(), 6);
    (0..3).for_each(|partition| shop.produce_to(partition, &events[20..40]));
    let consumer = before.unwrap_or_else(start);
    shop.wait_for_applied(40);
    shop.wait_until_committed();
    (0..3).for_each(|partition| shop.produce_to(partition, &events[30..]));
    shop.wait_for_applied(60);
    shop.wait_until_committed();
    let log = consumer.log();
    assert!(
        log.contains("from now on ids are asked") && log.contains("not in the partition of its key"),
        "{log}"
    );
    consumer.stop();
    shop.check_each(&events);
}

#[test]
fn what_comes_again_in_another_partition_before_consumers_know_of_it_is_applied_once() {
    grow(true);
}

#[test]
fn what_came_again_in_another_partition_before_the_first_consumer_is_applied_once() {
    grow(false);
}

#[test]
fn positions_are_compared_again_by_all_when_the_reason_is_forgotten() {
    let shop = Shop::open(postgres18(), kafka());
    let events = placed_payments(300, 20);
    shop.produce(&events[..100]);
    let first = shop.start(&POSITION);
    shop.wait_for_applied(100);
    kafka().add_partitions(&shop.topic(), 5);
    shop.produce(&events[50..200]);
    eventually(DEADLINE, "it is told", || first.log().contains("from now on ids are asked"));
    shop.wait_for_applied(200);
    shop.wait_until_committed();
    shop.execute("DELETE FROM inbox_topic");
    let second = shop.start(&POSITION);
    eventually(DEADLINE, "it begins anew", || count(&shop, "inbox_topic") == 1);
    shop.produce(&events[150..]);
    shop.produce(&events[150..]);
    shop.wait_for_applied(300);
    shop.wait_until_committed();
    first.stop();
    second.stop();
    shop.check_each(&events);
    assert_eq!((count(&shop, "inbox_topic"), count(&shop, "inbox_message")), (1, 200));
}

#[test]
fn partitions_that_are_added_under_load_repeat_nothing() {
    let shop = Shop::open(postgres18(), kafka());
    let events = placed_payments(3000, 40);
    shop.produce(&events[..1500]);
    let first = shop.start(&[&POSITION[..], &["--batch", "5"]].concat());
    let second = shop.start(&POSITION);
    shop.wait_for_applied(300);
    kafka().add_partitions(&shop.topic(), 7);
    shop.produce(&events[1000..2500]);
    shop.wait_for_applied(1600);
    first.kill();
    shop.produce(&events[500..]);
    let third = shop.start(&POSITION);
    shop.wait_for_applied(3000);
    shop.wait_until_committed();
    second.stop();
    third.stop();
    shop.check_each(&events);
}
