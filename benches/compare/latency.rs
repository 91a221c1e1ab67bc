//! From the row's insert to a consumer, at a steady rate.

use std::time::{Duration, Instant};

use crate::clock::unix_us;
use crate::connect::Worker;
use crate::consumer::Consumer;
use crate::contestant::{Contestant, Field};
use crate::drain::{WARM_UP, turns};
use crate::lab::Lab;
use crate::options::Options;
use crate::relays::{Program, Running, exactly};
use crate::support::wait::eventually;
use crate::topic::Topic;
use crate::writer::{Load, Writer};

const STARTED_WITHIN: Duration = Duration::from_secs(180);
const FIRST_WITHIN: Duration = Duration::from_secs(60);
/// After the first record, before what counts.
const SETTLED: Duration = Duration::from_secs(5);
const DRAINED_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);
const HEAD: &str =
    "| | records | p50 ms | p99 ms | p99.9 ms | max ms |\n| --- | --: | --: | --: | --: | --: |";

/// Returns whether every contestant sent every row once.
pub(crate) fn run(options: &Options, rate: u32) -> bool {
    let lab = Lab::start(options);
    let field = Field::gather(options, &lab.bindir(), |options| Worker::start(options, &lab));
    lab.describe(options);
    println!(
        "{rate} transactions of one row a second, {} s each in {} rounds, and each after {SETTLED:?}",
        options.seconds, options.rounds
    );
    let relays = field.relays();
    let mut outcomes: Vec<Result<Vec<Duration>, String>> = vec![Ok(Vec::new()); relays.len()];
    for round in 0..=options.rounds {
        for at in turns(relays.len(), round) {
            let outcome = measure(&lab, options, field.program(relays[at]), (relays[at], round), rate);
            report(round, relays[at], &outcome);
            merge(&mut outcomes[at], outcome, round);
        }
    }
    let lines = relays.iter().zip(&outcomes).map(|(&contestant, outcome)| line(contestant, outcome));
    println!("\n{HEAD}\n{}", lines.collect::<Vec<_>>().join("\n"));
    outcomes.iter().all(Result::is_ok)
}

/// Merges the results of all rounds into one. The virtual machines compile in the first round, so it does not count.
fn merge(all: &mut Result<Vec<Duration>, String>, outcome: Result<Vec<Duration>, String>, round: u32) {
    match (all.as_mut(), outcome) {
        (Ok(all), Ok(latencies)) if round != WARM_UP => {
            all.extend(latencies);
            all.sort_unstable();
        }
        (Ok(_), Err(reason)) => *all = Err(reason),
        (Ok(_), Ok(_)) | (Err(_), _) => {}
    }
}

fn report(round: u32, contestant: Contestant, outcome: &Result<Vec<Duration>, String>) {
    let round = if round == WARM_UP { "warm-up".to_owned() } else { format!("round {round}") };
    println!("{round}: {}", line(contestant, outcome));
}

fn measure(
    lab: &Lab,
    options: &Options,
    program: Program<'_>,
    (contestant, round): (Contestant, u32),
    rate: u32,
) -> Result<Vec<Duration>, String> {
    let slot = format!("{contestant}_latency_{round}");
    let topic = Topic::create(&lab.kafka, &format!("compare.{slot}"));
    lab.create_slots(std::slice::from_ref(&slot));
    let relay = Running::start(program, lab, (&slot, topic.name()), options.shape)?;
    eventually(STARTED_WITHIN, "the relay streams", || lab.is_held(&slot));
    let load = Load { every: Duration::from_secs(1) / rate, rows: 1, payload: options.payload };
    let consumer = Consumer::open(&lab.kafka, topic.name());
    let writer = Writer::start(lab.db.address(), load);
    let outcome = collect(&consumer, writer, Duration::from_secs(options.seconds));
    relay.stop()?;
    lab.drop_slot(&slot);
    let (latencies, written) = outcome?;
    exactly(&topic, written)?;
    Ok(latencies)
}

/// Returns the sorted latencies of the rows that were written in the measured time, and the number of all rows.
fn collect(consumer: &Consumer, writer: Writer, counted: Duration) -> Result<(Vec<Duration>, u64), String> {
    if consumer.next(FIRST_WITHIN).is_none() {
        return Err(format!("no record of {} rows came", writer.stop()));
    }
    let from_us = unix_us() + i64::try_from(SETTLED.as_micros()).unwrap();
    let mut arrivals = Vec::new();
    let until = Instant::now() + SETTLED + counted;
    while Instant::now() < until {
        arrivals.extend(consumer.next(POLL));
    }
    let written = writer.stop();
    let deadline = Instant::now() + DRAINED_WITHIN;
    // The first one is not among them.
    while count(arrivals.len()) + 1 < written {
        if Instant::now() > deadline {
            return Err(format!("{} records of {written} rows came", arrivals.len() + 1));
        }
        arrivals.extend(consumer.next(POLL));
    }
    let counting = arrivals.iter().filter(|arrival| arrival.written_us >= from_us);
    let mut latencies: Vec<Duration> = counting.map(|arrival| arrival.latency).collect();
    latencies.sort_unstable();
    Ok((latencies, written))
}

fn count(records: usize) -> u64 {
    u64::try_from(records).unwrap()
}

fn line(contestant: Contestant, outcome: &Result<Vec<Duration>, String>) -> String {
    let latencies = match outcome {
        Ok(latencies) => latencies,
        Err(reason) => return format!("| {contestant} | failed: {reason} | | | | |"),
    };
    let ms = |per_mille| percentile(latencies, per_mille).as_secs_f64() * 1e3;
    format!(
        "| {contestant} | {} | {:.1} | {:.1} | {:.1} | {:.1} |",
        latencies.len(),
        ms(500),
        ms(990),
        ms(999),
        ms(1000)
    )
}

/// Returns the least value that `per_mille` of a thousand values do not exceed.
fn percentile(sorted: &[Duration], per_mille: usize) -> Duration {
    let rank = (sorted.len() * per_mille).div_ceil(1000);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}
