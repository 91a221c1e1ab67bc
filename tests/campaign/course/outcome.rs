//! Outcome of one run, and of all runs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::plan::draw::Draw;

/// The course of a run that takes longer is printed.
const LONG: Duration = Duration::from_secs(60);

/// Outcome of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) draw: Draw,
    /// Each begins with its rule.
    pub(crate) violations: Vec<String>,
    /// Exits that the relay chose, with their reasons.
    pub(crate) stops: Vec<String>,
    /// Reason for which the run waits for the operator in the end.
    pub(crate) given_up: Option<String>,
    /// Result of `outboxd verify`, and whether it was compared with the oracle.
    pub(crate) verified: String,
    pub(crate) changes: usize,
    pub(crate) records: usize,
    pub(crate) repeats: usize,
    pub(crate) log: Vec<String>,
    pub(crate) took: Duration,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { draw, changes, records, repeats, verified, violations, .. } = self;
        writeln!(
            f,
            "seed {}: {:.1} s, {changes} changes, {records} records, {repeats} repeats, {} stops, verify: {verified}, {} violations; {:?} under {:?}",
            draw.seed,
            self.took.as_secs_f64(),
            self.stops.len(),
            violations.len(),
            draw.all(),
            draw.faults,
        )?;
        self.stops.iter().try_for_each(|stop| writeln!(f, "    {stop}"))?;
        violations.iter().take(6).try_for_each(|violation| writeln!(f, "    {violation}"))?;
        if self.took > LONG {
            self.log.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        }
        self.given_up.iter().try_for_each(|reason| writeln!(f, "    waits for a person: {reason}"))
    }
}

/// Sums over the runs.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    runs: usize,
    changes: usize,
    records: usize,
    repeats: usize,
    stops: BTreeMap<String, usize>,
    waiting: BTreeMap<String, usize>,
    verified: BTreeMap<String, usize>,
    pub(crate) failures: Vec<String>,
}

impl Figures {
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        self.runs += 1;
        self.changes += outcome.changes;
        self.records += outcome.records;
        self.repeats += outcome.repeats;
        for stop in &outcome.stops {
            *self.stops.entry(stop.clone()).or_default() += 1;
        }
        if let Some(reason) = &outcome.given_up {
            let reason = reason.lines().last().unwrap_or_default();
            *self.waiting.entry(reason.to_owned()).or_default() += 1;
        }
        let verified = outcome.verified.split(',').next().unwrap_or_default();
        *self.verified.entry(verified.to_owned()).or_default() += 1;
        if !outcome.violations.is_empty() {
            let (log, violations) = (outcome.log.join("\n"), outcome.violations.join("\n"));
            self.failures
                .push(format!("seed {}: {:?}\n{log}\n{violations}", outcome.draw.seed, outcome.draw));
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, changes, records, repeats, .. } = self;
        let failed = self.failures.len();
        writeln!(f, "| runs | changes | records | repeats | runs with a violation |\n|---|---|---|---|---|")?;
        writeln!(f, "| {runs} | {changes} | {records} | {repeats} | {failed} |")?;
        for (what, counts) in
            [("stops", &self.stops), ("waiting for a person", &self.waiting), ("verify", &self.verified)]
        {
            counts.iter().try_for_each(|(name, count)| writeln!(f, "{what}: {count} of {name}"))?;
        }
        Ok(())
    }
}
