//! Those who write records: outboxd, and Debezium in a Connect worker.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::clock::pause;
use crate::connect::Worker;
use crate::contestant::Took;
use crate::drain::Trial;
use crate::support::relay::{Config, Relay};
use crate::topic::Topic;
use crate::usage::usage;

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Without a further record for so long, a relay has failed.
const STALLED_AFTER: Duration = Duration::from_secs(60);

/// What runs a relay.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Program<'a> {
    Outboxd,
    Another(&'a Path),
    /// The worker runs already, so that its start does not count.
    Debezium(&'a Worker),
}

/// A relay at work.
#[derive(Debug)]
pub(crate) enum Running<'a> {
    Outboxd(Box<Relay>),
    Debezium { worker: &'a Worker, connector: &'a str },
}

/// When records came.
#[derive(Debug)]
struct Came {
    first: Duration,
    last: Duration,
}

impl<'a> Running<'a> {
    /// The connector has the name of its slot.
    pub(crate) fn start(program: Program<'a>, slot: &'a str, config: &Config) -> Result<Self, String> {
        match program {
            Program::Outboxd => Ok(Self::Outboxd(Box::new(Relay::start(config)))),
            Program::Another(program) => Ok(Self::Outboxd(Box::new(Relay::start_program(program, config)))),
            Program::Debezium(worker) => {
                worker.create(slot, config)?;
                Ok(Self::Debezium { worker, connector: slot })
            }
        }
    }

    /// The process that does the work.
    pub(crate) fn id(&self) -> u32 {
        match self {
            Self::Outboxd(relay) => relay.id(),
            Self::Debezium { worker, .. } => worker.id(),
        }
    }

    /// Ends it.
    ///
    /// # Errors
    /// When that does not go well, with what it has said.
    pub(crate) fn stop(self) -> Result<(), String> {
        match self {
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
    let topic = Topic::create(&trial.lab.kafka, &format!("compare.{}", trial.slot));
    let config = trial.lab.config(trial.slot, topic.name(), trial.shape);
    let before = match program {
        Program::Outboxd | Program::Another(_) => None,
        Program::Debezium(worker) => usage(worker.id()),
    };
    let start = Instant::now();
    let relay = Running::start(program, trial.slot, &config)?;
    let came = wait(&topic, trial.rows, start).map_err(|stall| format!("{stall}: {}", relay.said()));
    let used = usage(relay.id());
    relay.stop()?;
    let came = came?;
    exactly(&topic, trial.rows)?;
    let usage = used.map(|used| before.map_or(used, |before| used.since(before)));
    Ok(Took { wall: came.last, first: Some(came.first), usage })
}

fn wait(topic: &Topic, rows: u64, start: Instant) -> Result<Came, String> {
    let (mut first, mut count, mut moved) = (None, 0, Instant::now());
    loop {
        let now = topic.count();
        if now > count {
            (count, moved) = (now, Instant::now());
        }
        if count > 0 && first.is_none() {
            first = Some(start.elapsed());
        }
        if count >= rows {
            let last = start.elapsed();
            return Ok(Came { first: first.unwrap_or(last), last });
        }
        if moved.elapsed() > STALLED_AFTER {
            return Err(format!("{count} records of {rows}, and no more for {STALLED_AFTER:?}"));
        }
        pause(LOOK_EVERY);
    }
}

/// Neither a row too few nor one too many, now that nothing more comes.
pub(crate) fn exactly(topic: &Topic, rows: u64) -> Result<(), String> {
    match topic.count() {
        count if count == rows => Ok(()),
        count => Err(format!("{count} records of {rows} rows")),
    }
}
