//! Cost of an event, by the way it is consumed: through a real Kafka into a PostgreSQL that flushes each commit.
//!
//! ```console
//! $ cargo bench -p outboxd-inbox
//! ```
//!
//! The first way is the handwritten code of services (SELECT, INSERT, UPDATE, COMMIT for each event), and it does not
//! even read the events from Kafka. The others are timed from the first event that a handler receives to the last.

#![allow(clippy::incompatible_msrv, reason = "it is built with the toolchain of the project")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a benchmark fails by panicking")]
#![allow(clippy::indexing_slicing, clippy::print_stdout, reason = "and prints what it measured")]

#[path = "../../tests/e2e/support/mod.rs"]
mod base;
mod consume;
mod lab;
mod records;
#[path = "../../tests/keys/support/redis.rs"]
#[allow(dead_code, reason = "a part of it is used")]
mod redis_server;

use std::time::Duration;

use outboxd_inbox::Dedupe;
use outboxd_inbox::core::Order;
use outboxd_inbox::postgres::Connector;
use tokio_postgres::NoTls;

use consume::{How, Way, consume};
use lab::Lab;

/// Number of rounds, each with all ways; the medians are printed, of the rates and of their ratios in each round.
const ROUNDS: usize = 5;
/// Accounts, each a key of its own.
const ACCOUNTS: i64 = 1000;
/// Duration of a handler that queries another service, and of one that queries a slow service.
const SLOW: Duration = Duration::from_millis(10);
const SLOWER: Duration = Duration::from_millis(500);
/// With it, the process is the one whose memory is measured: bootstrap servers, PostgreSQL's URL, topic, events of a batch.
const MEASURED: &str = "OUTBOXD_INBOX_BENCH_MEASURED";
/// Events for the measurement of memory.
const MEASURED_EVENTS: i64 = 20_000;

fn main() {
    if let Ok(told) = std::env::var(MEASURED) {
        return consume_and_tell_memory(&told);
    }
    let lab = Lab::start();
    ways(&lab);
    slow_handlers(&lab);
    records::measure(&lab);
    for batch in [1, 100] {
        println!("{:45} {:9.1} MiB", format!("memory, batches of {batch}"), lab.memory(batch));
    }
}

/// Measures in rounds, because other work on the machine hits one way more than another.
fn ways(lab: &Lab) {
    // Once in vain: what comes first finds everything cold.
    lab.by_hand("warm", 1000);
    let rounds: Vec<[f64; 5]> = (0..ROUNDS)
        .map(|round| {
            [
                lab.by_hand(&format!("hand-{round}"), 1500),
                lab.consume(1500, &How::each(1)),
                lab.consume(3000, &How::each(8)),
                lab.consume(20_000, &How::batches(Dedupe::Ids)),
                lab.consume(20_000, &How::batches(Dedupe::Position)),
            ]
        })
        .collect();
    let names = [
        "SELECT, INSERT, UPDATE, COMMIT, by hand",
        "one by one, one worker",
        "one by one, 8 workers",
        "batches of 100, one worker",
        "the same by position",
    ];
    for (way, name) in names.into_iter().enumerate() {
        let rate = median(rounds.iter().map(|round| round[way]));
        let ratio = median(rounds.iter().map(|round| round[way] / round[0]));
        println!("{name:45} {rate:9.0} events/s {ratio:6.1} x");
    }
    let ratio = median(rounds.iter().map(|round| round[4] / round[3]));
    println!("{:45} {ratio:26.2} x", "position beside ids");
}

fn slow_handlers(lab: &Lab) {
    let slow = |workers, order, slow| How { order, way: Way::Slow(slow), ..How::each(workers) };
    let serial = lab.consume(200, &slow(8, Order::PerPartition, SLOW));
    report("a handler of 10 ms, the partition in order", serial, serial);
    report("a handler of 10 ms, keys in order", lab.consume(1000, &slow(8, Order::PerKey, SLOW)), serial);
    for (handler, count) in [(SLOW, 200), (SLOWER, 10)] {
        let rate = lab.consume(count, &slow(1, Order::PerKey, handler));
        let more = 1000.0 / rate - 1000.0 * handler.as_secs_f64();
        println!("{:45} {more:9.2} ms more an event", format!("a handler of {handler:?}"));
    }
}

fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn report(what: &str, rate: f64, base: f64) {
    println!("{what:45} {rate:9.0} events/s {:6.1} x", rate / base);
}

fn consume_and_tell_memory(told: &str) {
    let told: Vec<&str> = told.lines().collect();
    let batch: usize = told[3].parse().unwrap();
    let how = if batch == 1 { How::each(8) } else { How::batches(Dedupe::Ids) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let connector = Connector::new(told[1].parse().unwrap(), NoTls);
    runtime.block_on(consume(told[0], connector, told[2], MEASURED_EVENTS, &how));
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    println!("{}", peak.trim().trim_end_matches(" kB"));
}
