//! `outboxd inbox` beside running consumers.

use std::ffi::OsString;

use outboxd::internals::cli::run_with;

use crate::parking::behind_a_dead_letter;
use crate::process::{self, Process};
use crate::shop::{Shop, payments};
use crate::support::kafka::kafka;
use crate::support::postgres::postgres18;
use crate::support::wait::{DEADLINE, eventually_eq};

/// Not a test of its own: the process of the command.
#[test]
fn outboxd_process() {
    let Some(arguments) = process::arguments() else { return };
    let command_line = arguments.into_iter().map(OsString::from).collect();
    std::process::exit(run_with(command_line).code().into());
}

/// Waits until `applied` events are applied and `parked` events are parked.
#[track_caller]
fn wait_for(shop: &Shop<'_>, applied: i64, parked: i64) {
    // The consumer creates the tables.
    shop.wait_for_applied(applied);
    eventually_eq(DEADLINE, &(applied, parked), || (shop.applied_count(), shop.parked_count()));
}

/// Runs `outboxd inbox`, which must succeed.
#[track_caller]
fn inbox(shop: &Shop<'_>, command: &str, arguments: &[&str]) {
    let own = ["inbox", command, "--postgres", shop.url(), "--consumer", shop.name(), "--yes"];
    let mut process = Process::start("operator::outboxd_process", own.iter().chain(arguments).copied());
    assert!(process.wait_for_exit().success(), "{}", process.log());
}

const PARK: [&str; 4] = ["--retry", "none", "--park", "1h"];

#[test]
fn a_running_consumer_tries_again_what_is_retried() {
    let shop = Shop::open(postgres18(), kafka());
    let mut events = payments(60, 6);
    events[7].fail = "once";
    events[9].fail = "once";
    shop.produce(&events);
    let consumer = shop.start(&PARK);
    // Of two keys one event is applied, and nine wait.
    wait_for(&shop, 40 + 2, 18);
    inbox(&shop, "retry", &["--key", "1"]);
    wait_for(&shop, 50 + 1, 9);
    inbox(&shop, "retry", &["--all"]);
    wait_for(&shop, 60, 0);
    consumer.stop();
    shop.check(&events);
}

#[test]
fn a_running_consumer_continues_behind_what_is_skipped() {
    let shop = Shop::open(postgres18(), kafka());
    let mut events = payments(60, 6);
    // The last event of its key: nothing waits behind it in the table.
    events[7].fail = "always";
    events[57].fail = "always";
    shop.produce(&events);
    let consumer = shop.start(&PARK);
    wait_for(&shop, 40 + 1 + 9, 9 + 1);
    inbox(&shop, "skip", &["--id", "event-7"]);
    inbox(&shop, "skip", &["--key", "3"]);
    wait_for(&shop, 58, 0);
    // A later event of that key is not held up by an event that is gone.
    let later = payments(120, 6).split_off(60);
    shop.produce(&later);
    shop.wait_for_applied(118);
    consumer.stop();
    events.retain(|event| event.fail == "no");
    shop.check(&[events, later].concat());
    assert_eq!(shop.dead_ids(), [""; 0]);
}

#[test]
fn a_running_consumer_continues_a_key_that_is_released() {
    let shop = Shop::open(postgres18(), kafka());
    let (consumer, events) = behind_a_dead_letter(&shop);
    inbox(&shop, "release", &["--key", "2"]);
    wait_for(&shop, 100, 0);
    consumer.stop();
    // In the order of their numbers.
    shop.check(&events);
}

#[test]
fn a_running_consumer_waits_no_longer_for_a_number_that_is_skipped() {
    let shop = Shop::open(postgres18(), kafka());
    let events = payments(40, 4);
    let (missing, there): (Vec<_>, Vec<_>) = events.iter().cloned().partition(|event| event.id == "event-14");
    shop.produce(&there);
    let consumer = shop.start(&["--dedupe", "sequence", "--retry", "none"]);
    wait_for(&shop, 30 + 3, 6);
    inbox(&shop, "skip", &["--key", "2", "--number", "3"]);
    wait_for(&shop, 39, 0);
    // It is handled when it comes at last.
    shop.produce(&missing);
    shop.wait_for_applied(40);
    consumer.stop();
}

#[test]
fn an_event_that_is_forgotten_is_applied_again() {
    let shop = Shop::open(postgres18(), kafka());
    let events = payments(10, 2);
    shop.produce(&events);
    let consumer = shop.start(&[]);
    shop.wait_for_applied(10);
    inbox(&shop, "forget", &["--id", "event-3"]);
    shop.produce(&events[2..4]);
    shop.wait_for_applied(11);
    shop.wait_until_committed();
    consumer.stop();
    let again = "SELECT event_id FROM applied GROUP BY event_id HAVING count(*) > 1";
    let again: Vec<String> = shop.query(again, &[]).iter().map(|row| row.get(0)).collect();
    assert_eq!(again, ["event-3"]);
}
