//! outboxd under load for a while: does it need more and more memory, does it fall behind?

use std::time::{Duration, Instant};

use crate::clock::pause;
use crate::lab::Lab;
use crate::options::Options;
use crate::relays::{Program, Running, exactly};
use crate::support::wait::eventually;
use crate::table::{count, mebibytes, median};
use crate::topic::Topic;
use crate::usage::{resident_bytes, usage};
use crate::writer::{Load, Writer};

const STARTED_WITHIN: Duration = Duration::from_secs(60);
const DRAINED_WITHIN: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_secs(10);
const SLOT: &str = "outboxd_soak";
/// Maximum growth of the last third over the middle one: a share of it, and some mebibytes.
const GROWTH_MAX: f64 = 1.05;
const GROWTH_MIB_MAX: f64 = 1.0;

/// Sample of one moment.
#[derive(Debug, Clone, Copy)]
struct Sample {
    resident_mib: f64,
    /// Rows that are committed and not in Kafka yet.
    rows_behind: f64,
}

/// Returns whether every row came once, and nothing grew.
pub(crate) fn run(options: &Options, duration: Duration) -> bool {
    let lab = Lab::start(options);
    lab.describe(options);
    let topic = Topic::create(&lab.kafka, &format!("compare.{SLOT}"));
    lab.create_slots(&[SLOT.to_owned()]);
    let relay = Running::start(Program::Outboxd, &lab, (SLOT, topic.name()), options.shape).unwrap();
    eventually(STARTED_WITHIN, "the relay streams", || lab.is_held(SLOT));
    let writer = Writer::start(lab.db.address(), load(options));
    let samples = watch(&lab, &topic, relay.id(), &writer, duration);
    let written = writer.stop();
    eventually(DRAINED_WITHIN, "every row is in Kafka", || topic.count() >= written);
    let used = usage(relay.id());
    relay.stop().unwrap();
    let complete = exactly(&topic, written);
    if let Err(reason) = &complete {
        println!("failed: {reason}");
    }
    if let Some(used) = used {
        let a_row = used.cpu.as_secs_f64() * 1e6 / count(written);
        let peak = used.peak_bytes.map(mebibytes).unwrap_or_default();
        println!("{written} rows, {a_row:.2} µs of CPU a row, {peak:.1} MiB at most");
    }
    judge(&samples, options) && complete.is_ok()
}

fn load(options: &Options) -> Load {
    let rows = options.per_transaction.min(options.rate);
    let every = Duration::from_secs_f64(count(rows) / count(options.rate));
    println!("{} rows a second, {rows} a transaction", options.rate);
    Load { every, rows, payload: options.payload }
}

fn watch(lab: &Lab, topic: &Topic, pid: u32, writer: &Writer, duration: Duration) -> Vec<Sample> {
    println!("{:>7} {:>8} {:>12} {:>12} {:>10}", "s", "MiB", "rows written", "rows behind", "WAL behind");
    let start = Instant::now();
    let mut samples = Vec::new();
    while start.elapsed() < duration {
        pause(LOOK_EVERY.min(duration));
        let written = writer.written();
        let behind = written.saturating_sub(topic.count());
        let resident_mib =
            resident_bytes(pid).map(mebibytes).expect("the relay runs, on a system with /proc");
        println!(
            "{:>7.0} {resident_mib:>8.1} {written:>12} {behind:>12} {:>10}",
            start.elapsed().as_secs_f64(),
            lab.bytes_behind(SLOT)
        );
        samples.push(Sample { resident_mib, rows_behind: count(behind) });
    }
    samples
}

/// Returns whether usage is flat: the median of the last third of the samples is no more than that of the middle third,
/// except for [`GROWTH_MAX`] and [`GROWTH_MIB_MAX`] of memory and a second's rows of lag.
fn judge(samples: &[Sample], options: &Options) -> bool {
    let third = samples.len() / 3;
    let (middle, last) = (samples.iter().skip(third).take(third), samples.iter().skip(samples.len() - third));
    let medians = |of: fn(&Sample) -> f64| {
        Some((median(middle.clone().map(of).collect())?, median(last.clone().map(of).collect())?))
    };
    let Some((memory, lag)) = medians(|s| s.resident_mib).zip(medians(|s| s.rows_behind)) else {
        println!("too short to judge: at least three samples, {LOOK_EVERY:?} apart");
        return false;
    };
    let memory_is_flat = memory.1 <= memory.0 * GROWTH_MAX + GROWTH_MIB_MAX;
    let lag_is_flat = lag.1 <= lag.0 + count(options.rate);
    let word = |flat| if flat { "flat" } else { "NOT flat" };
    println!(
        "memory is {}: {:.1} MiB in the middle third, {:.1} in the last",
        word(memory_is_flat),
        memory.0,
        memory.1
    );
    println!("lag is {}: {:.0} rows in the middle third, {:.0} in the last", word(lag_is_flat), lag.0, lag.1);
    memory_is_flat && lag_is_flat
}
