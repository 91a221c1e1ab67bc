//! The servers go away and come back, and consumers come and go.

use outboxd::internals::throwaway::StopMode;

use crate::shop::{Shop, payments};
use crate::support::kafka::{Kafka, kafka};
use crate::support::postgres::{postgres18, start};
use crate::support::wait::DEADLINE;

#[test]
fn postgres_that_goes_away_in_the_middle_is_waited_for() {
    let mut postgres = start(18);
    let shop = Shop::open(&postgres, kafka());
    let events = payments(3000, 40);
    shop.produce(&events);
    let consumer = shop.start(&[]);
    shop.wait_for_applied(500);
    postgres.kill().unwrap();
    postgres.start_again().unwrap();
    shop.wait_for_applied(1200);
    postgres.stop(StopMode::Fast, DEADLINE).unwrap();
    postgres.start_again().unwrap();
    shop.wait_for_applied(3000);
    shop.wait_until_committed();
    consumer.stop();
    shop.check(&events);
    assert_eq!(kafka().record_count(&shop.dead_letter_topic()), 0);
}

#[test]
fn a_broker_that_goes_away_in_the_middle_is_waited_for() {
    let mut broker = Kafka::start();
    let name = {
        let shop = Shop::open(postgres18(), &broker);
        shop.produce(&payments(3000, 40));
        shop.name().to_owned()
    };
    let consumer = Shop::of(postgres18(), &broker, &name).start(&[]);
    Shop::of(postgres18(), &broker, &name).wait_for_applied(500);
    broker.kill();
    broker.start_again();
    let shop = Shop::of(postgres18(), &broker, &name);
    shop.wait_for_applied(3000);
    shop.wait_until_committed();
    consumer.stop();
    shop.check(&payments(3000, 40));
}

#[test]
fn partitions_that_move_under_load_lose_nothing_and_keep_their_order() {
    let shop = Shop::open(postgres18(), kafka());
    let mut events = payments(4500, 60);
    for event in events.iter_mut().step_by(97) {
        event.fail = "once";
    }
    shop.produce(&events);
    let first = shop.start(&[]);
    shop.wait_for_applied(500);
    let second = shop.start(&[]);
    shop.wait_for_applied(1200);
    let third = shop.start(&[]);
    shop.wait_for_applied(2000);
    first.stop();
    shop.wait_for_applied(3000);
    second.kill();
    shop.wait_for_applied(4500);
    shop.wait_until_committed();
    third.stop();
    shop.check(&events);
    assert_eq!(kafka().record_count(&shop.dead_letter_topic()), 0);
}

/// Invariant: no event of a topic that was created again is skipped, although it has the offset at which the consumer was.
#[test]
fn a_longer_topic_of_the_same_name_is_read_from_its_beginning() {
    let shop = Shop::open(postgres18(), kafka());
    let events = payments(400, 40);
    shop.produce(&events[..40]);
    let mut consumer = shop.start(&[]);
    shop.wait_for_applied(40);
    shop.wait_until_committed();
    consumer.pause();
    kafka().delete_topic(&shop.topic());
    kafka().create_topic(&shop.topic(), 3, &[]);
    shop.produce(&events[40..]);
    consumer.resume();
    shop.wait_for_applied(400);
    consumer.stop();
    shop.check_each(&events);
}

#[test]
fn a_partition_that_is_added_is_read_soon() {
    let shop = Shop::open(postgres18(), kafka());
    let events = payments(40, 40);
    shop.produce(&events[..20]);
    let consumer = shop.start(&[]);
    shop.wait_for_applied(20);
    kafka().add_partitions(&shop.topic(), 4);
    shop.produce_to(3, &events[20..]);
    shop.wait_for_applied(40);
    consumer.stop();
    shop.check(&events);
}
