//! Outcome of a campaign, as a row of a table.

use std::fmt;
use std::time::Duration;

use crate::campaign::Plan;
use crate::faults::Fault;
use crate::judge::Verdict;
use crate::samples::Usage;

/// Outcome of a campaign.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) plan: Plan,
    pub(crate) faults: Vec<Fault>,
    pub(crate) log: Vec<String>,
    pub(crate) verdict: Verdict,
    pub(crate) transactions: u64,
    pub(crate) times: Vec<(&'static str, Duration)>,
    /// Number of times that Kafka left a transaction open that it had promised to end.
    pub(crate) forgotten: usize,
    pub(crate) usage: Usage,
    pub(crate) samples: usize,
}

impl Outcome {
    fn count(&self, such: impl Fn(Fault) -> bool) -> usize {
        self.faults.iter().filter(|fault| such(**fault)).count()
    }

    fn longest(&self, name: &str) -> Duration {
        self.times.iter().filter(|(other, _)| *other == name).map(|(_, time)| *time).max().unwrap_or_default()
    }

    /// Returns the header of the table.
    pub(crate) fn head() -> &'static str {
        "| shape | mode | seed | s | faults | relay kills | stops | pauses | broker kills | pauses | PostgreSQL stops, crashes | links cut | \
         slow, held, garbled | transactions | rows | lost | phantom | reordered | changed | confirmed early | repeats (replays) | \
         forgotten by Kafka | slowest recovery |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use crate::faults::LinkFault::{Cut, Reset};
        use Fault::*;
        let verdict = &self.verdict;
        let counts = [
            self.faults.len(),
            self.count(|fault| fault == RelayKilled),
            self.count(|fault| fault == RelayStopped),
            self.count(|fault| matches!(fault, RelayPaused | RelayReplaced)),
            self.count(|fault| fault == BrokerKilled),
            self.count(|fault| fault == BrokerPaused),
            self.count(|fault| {
                matches!(fault, PostgresFast | PostgresImmediate | PostgresKilled | WalsenderKilled)
            }),
            self.count(|f| {
                matches!(f, WalsenderTerminated | PostgresLink(Cut | Reset) | KafkaLink(Cut | Reset))
            }),
            self.count(|f| matches!(f, PostgresLink(_) | KafkaLink(_)))
                - self.count(|f| matches!(f, PostgresLink(Cut | Reset) | KafkaLink(Cut | Reset))),
        ];
        let Plan { shape, mode, seed, .. } = &self.plan;
        write!(f, "| {shape:?} | {mode:?} | {seed} | {} ", self.plan.lasts.as_secs())?;
        counts.iter().try_for_each(|count| write!(f, "| {count} "))?;
        write!(f, "| {} | {} | {} ", self.transactions, verdict.rows, verdict.lost)?;
        write!(f, "| {} | {} | {} ", verdict.phantoms, verdict.reordered, verdict.changed)?;
        write!(f, "| {} | {} ({}) ", verdict.early_confirms, verdict.repeats, verdict.replays)?;
        write!(f, "| {} ", self.forgotten)?;
        write!(f, "| {:.1} s |", self.longest("healed to caught up").as_secs_f64())
    }
}
