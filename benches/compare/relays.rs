//! Those who write records: outboxd, and Debezium in a Connect worker.

use std::path::Path;
use std::process;
use std::time::{Duration, Instant};

use crate::clock::pause;
use crate::connect::Worker;
use crate::contestant::Took;
use crate::drain::Trial;
use crate::lab::Lab;
use crate::options::Shape;
use crate::plain_loop::PlainLoop;
use crate::support::relay::Relay;
use crate::topic::Topic;
use crate::usage::usage;

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Without a further record for so long, a relay has failed.
const STALLED_AFTER: Duration = Duration::from_secs(60);

/// Program of a relay.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Program<'a> {
    Outboxd,
    Another(&'a Path),
    Loop,
    /// The worker runs already, so that its start does not count.
    Debezium(&'a Worker),
}

/// A relay at work.
#[derive(Debug)]
pub(crate) enum Running<'a> {
    Outboxd(Box<Relay>),
    Loop(PlainLoop),
    Debezium { worker: &'a Worker, connector: &'a str },
}

/// Arrival times of records.
#[derive(Debug)]
struct Came {
    first: Duration,
    last: Duration,
}

impl<'a> Running<'a> {
    /// Starts a relay. The connector has the name of its slot.
    pub(crate) fn start(
        program: Program<'a>,
        lab: &Lab,
        (slot, topic): (&'a str, &str),
        shape: Shape,
    ) -> Result<Self, String> {
        let config = &lab.config(slot, topic, shape);
        match program {
            Program::Loop => Ok(Self::Loop(PlainLoop::start(lab, slot, topic))),
            Program::Outboxd => Ok(Self::Outboxd(Box::new(Relay::start(config)))),
            Program::Another(program) => Ok(Self::Outboxd(Box::new(Relay::start_program(program, config)))),
            Program::Debezium(worker) => {
                worker.create(slot, config)?;
                Ok(Self::Debezium { worker, connector: slot })
            }
        }
    }

    /// Returns the id of the process that does the work.
    pub(crate) fn id(&self) -> u32 {
        match self {
            Self::Loop(_) => process::id(),
            Self::Outboxd(relay) => relay.id(),
            Self::Debezium { worker, .. } => worker.id(),
        }
    }

    /// Ends the relay.
    ///
    /// # Errors
    /// Returns its output if it does not end cleanly.
    pub(crate) fn stop(self) -> Result<(), String> {
        match self {
            Self::Loop(running) => running.stop(),
            Self::Outboxd(relay) => {
                let mut relay = *relay;
                relay.terminate();
                match relay.wait_for_exit(STALLED_AFTER) {
                    0 => Ok(()),
                    code => Err(format!("exit code {code}: {}", relay.stderr())),
                }
            }
            Self::Debezium { worker, connector } => worker.delete(connector),
        }
    }

    fn said(&self) -> String {
        match self {
            Self::Loop(_) => String::new(),
            Self::Outboxd(relay) => relay.stderr(),
            Self::Debezium { worker, .. } => worker.log(),
        }
    }
}

/// Lets a relay work off the backlog.
///
/// # Errors
/// When it stalls, ends badly, or does not write a record a row.
pub(crate) fn drain(program: Program<'_>, trial: &Trial<'_>) -> Result<Took, String> {
    let name = format!("compare.{}", trial.slot);
    let names = trial.lab.tables.map_or_else(|| vec![name.clone()], |tables| tables.topics(trial.slot));
    let topic = Topic::create_all(&trial.lab.kafka, names);
    let before = match program {
        Program::Outboxd | Program::Another(_) | Program::Loop => None,
        Program::Debezium(worker) => usage(worker.id()),
    };
    let start = Instant::now();
    let relay = Running::start(program, trial.lab, (trial.slot, &name), trial.shape)?;
    let came = wait(&topic, trial.records, start).map_err(|stall| format!("{stall}: {}", relay.said()));
    let used = usage(relay.id());
    relay.stop()?;
    let came = came?;
    exactly(&topic, trial.records.iter().sum())?;
    let usage = used.map(|used| before.map_or(used, |before| used.since(before)));
    Ok(Took { wall: came.last, first: Some(came.first), usage })
}

/// Waits for the records topic after topic, so that few are queried at a time: the relay sends to all of them in turn.
fn wait(topic: &Topic, records: &[u64], start: Instant) -> Result<Came, String> {
    let (mut first, mut count, mut moved) = (None, 0, Instant::now());
    let mut awaited = records.iter().copied().enumerate().peekable();
    loop {
        let Some(&(index, expected)) = awaited.peek() else {
            let last = start.elapsed();
            return Ok(Came { first: first.unwrap_or(last), last });
        };
        let now = topic.count_of(index);
        if now > count {
            (count, moved) = (now, Instant::now());
        }
        if now > 0 && first.is_none() {
            first = Some(start.elapsed());
        }
        if now >= expected {
            (count, moved) = (0, Instant::now());
            awaited.next();
            continue;
        }
        if moved.elapsed() > STALLED_AFTER {
            return Err(format!("{count} records of {expected}, and no more for {STALLED_AFTER:?}"));
        }
        pause(LOOK_EVERY);
    }
}

/// Checks that the topic has neither too few nor too many records, after the last one has arrived.
pub(crate) fn exactly(topic: &Topic, rows: u64) -> Result<(), String> {
    match topic.count() {
        count if count == rows => Ok(()),
        count => Err(format!("{count} records of {rows} rows")),
    }
}
