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
    assert_eq!(count(&shop, "processed_messages"), 0);
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
    let mut cured = events.remove(47);
    cured.fail = "no";
    let others = [vec![late, cured], lost].concat();
    shop.produce(&others);
    shop.produce(&others);
    shop.wait_until_committed();
    consumer.stop();
    events.extend(others);
    shop.check(&events);
}

#[test]
fn when_positions_do_not_tell_repeats_that_is_said_and_ids_are_asked() {
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
    assert_eq!((count(&shop, "inbox_done"), count(&shop, "processed_messages")), (0, 320));
    shop.check(&events);
}
