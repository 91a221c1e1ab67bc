//! The oracles: they compare the committed events with the records that consumers see and with the positions that were
//! confirmed to the server.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::samples::Sample;
use crate::seen::Seen;
use crate::truth::Event;
use crate::world::{Ends, Place};

/// Violations of one kind that are shown.
const SHOWN_MAX: usize = 8;

/// A stretch of the run: from its beginning to that of the next.
#[derive(Debug)]
pub(crate) struct Phase {
    pub(crate) name: String,
    /// Nothing may come again in it.
    pub(crate) forbids_repeats: bool,
    /// A relay that was paused and its successor may write at once: what one sends again is between what the other does.
    pub(crate) two_may_send: bool,
    pub(crate) begins: Ends,
}

/// Findings of the oracles.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Each names its oracle.
    pub(crate) violations: Vec<String>,
    pub(crate) rows: usize,
    pub(crate) lost: usize,
    pub(crate) phantoms: usize,
    pub(crate) reordered: usize,
    pub(crate) changed: usize,
    pub(crate) early_confirms: usize,
    pub(crate) repeats: usize,
    /// Those that nothing excuses.
    pub(crate) forbidden: usize,
    /// Contiguous stretches of repeats.
    pub(crate) replays: usize,
    /// By what happened then.
    pub(crate) repeats_of: BTreeMap<String, usize>,
}

/// Evidence that the oracles judge.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evidence<'e> {
    pub(crate) truth: &'e [Event],
    pub(crate) seen: &'e [Seen],
    pub(crate) samples: &'e [Sample],
    pub(crate) phases: &'e [Phase],
}

impl Evidence<'_> {
    pub(crate) fn judge(self) -> Verdict {
        let numbers: HashMap<&str, usize> =
            self.truth.iter().enumerate().map(|(number, event)| (event.id.as_str(), number)).collect();
        let mut verdict = Verdict { rows: self.truth.len(), ..Verdict::default() };
        let firsts = self.records(&numbers, &mut verdict);
        self.losses(&firsts, &mut verdict);
        self.confirmations(&firsts, &mut verdict);
        verdict
    }

    /// Checks L2, L3, L4 and L5, record by record. Returns the place of the first record of each event.
    fn records<'t>(
        &'t self,
        numbers: &HashMap<&str, usize>,
        verdict: &mut Verdict,
    ) -> HashMap<usize, (&'t Place, i64)> {
        let mut firsts = HashMap::new();
        let (mut partitions, mut keys) = (BTreeMap::new(), BTreeMap::new());
        for seen in self.seen {
            let Some(&number) = numbers.get(seen.id.as_str()) else {
                verdict.phantoms += 1;
                verdict.complain("L2 phantom", seen, verdict.phantoms);
                continue;
            };
            let event = &self.truth[number];
            if let Some(difference) = difference(event, seen) {
                verdict.changed += 1;
                verdict.complain(&format!("L4 {difference}"), seen, verdict.changed);
            }
            let last: &mut Progress = partitions.entry(&seen.place).or_default();
            if firsts.contains_key(&number) {
                self.repeat(seen, number, last, verdict);
                continue;
            }
            firsts.insert(number, (&seen.place, seen.offset));
            let in_place = last.furthest.is_none_or(|furthest| furthest < number);
            let key_last: &mut (i64, Option<&Place>) = keys.entry((seen.letter, &seen.key)).or_default();
            let in_key = key_last.0 < event.n || event.n == 0;
            let same_place = key_last.1.is_none_or(|place| *place == seen.place);
            if !(in_place && in_key && same_place) {
                verdict.reordered += 1;
                verdict.complain("L3 first seen behind a later one", seen, verdict.reordered);
            }
            *key_last = (key_last.0.max(event.n), Some(&seen.place));
            last.furthest = last.furthest.max(Some(number));
            last.positions.insert(number, last.positions.len());
            last.replayed = None;
        }
        firsts
    }

    /// Checks L5: a repeat continues a replay or begins one.
    fn repeat(&self, seen: &Seen, number: usize, last: &mut Progress, verdict: &mut Verdict) {
        verdict.repeats += 1;
        let position = last.positions.get(&number).copied();
        // It continues after the last one, or a replay begins.
        let goes_on = position.zip(last.replayed).is_some_and(|(position, before)| position > before);
        let skips = goes_on && position > last.replayed.map(|before| before + 1) || position.is_none();
        verdict.replays += usize::from(!goes_on);
        last.replayed = position;
        let began = |phase: &&Phase| phase.begins.get(&seen.place).is_none_or(|end| *end <= seen.offset);
        let phase = self.phases.iter().rfind(began);
        let name = phase.map_or("before the first fault", |phase| phase.name.as_str());
        *verdict.repeats_of.entry(name.to_owned()).or_default() += 1;
        if phase.is_none_or(|phase| phase.forbids_repeats) {
            verdict.forbidden += 1;
            verdict.complain(&format!("L5 a repeat in: {name}"), seen, verdict.forbidden);
        }
        if skips && phase.is_none_or(|phase| !phase.two_may_send) {
            verdict.forbidden += 1;
            verdict.complain(
                &format!("L5 a replay leaves out something in: {name}"),
                seen,
                verdict.forbidden,
            );
        }
    }

    /// Checks L1.
    fn losses(&self, firsts: &HashMap<usize, (&Place, i64)>, verdict: &mut Verdict) {
        for (number, event) in
            self.truth.iter().enumerate().filter(|(number, _)| !firsts.contains_key(number))
        {
            verdict.lost += 1;
            if verdict.lost <= SHOWN_MAX {
                verdict.violations.push(format!("L1 lost: {number} of {}: {event:?}", self.truth.len()));
            }
        }
    }

    /// Checks L6: events up to the slot's confirmed position were in the partitions.
    fn confirmations(&self, firsts: &HashMap<usize, (&Place, i64)>, verdict: &mut Verdict) {
        let mut samples: Vec<&Sample> = self.samples.iter().collect();
        samples.sort_by_key(|sample| sample.confirmed);
        let mut highest: BTreeMap<&Place, i64> = BTreeMap::new();
        let mut events = self.truth.iter().enumerate().peekable();
        for sample in samples {
            while let Some((number, _)) = events.next_if(|(_, event)| event.commit_lsn < sample.confirmed) {
                // An event that never came is lost, and reported as lost.
                let Some((place, offset)) = firsts.get(&number) else { continue };
                let highest = highest.entry(place).or_default();
                *highest = (*highest).max(*offset);
            }
            let early = highest.iter().find(|(place, offset)| sample.ends.get(**place) <= Some(offset));
            if let Some((place, offset)) = early {
                verdict.early_confirms += 1;
                if verdict.early_confirms <= SHOWN_MAX {
                    let (at, end) = (sample.at, sample.ends.get(*place));
                    verdict.violations.push(format!(
                        "L6 at {at:?} confirmed {:X}, and offset {offset} of {place:?} was not there: {end:?}",
                        sample.confirmed
                    ));
                }
            }
        }
    }
}

/// Progress of a partition, in numbers of events.
#[derive(Debug, Default)]
struct Progress {
    furthest: Option<usize>,
    /// Position of the first record of each event, in order.
    positions: HashMap<usize, usize>,
    /// The last repeat's position, while nothing new came behind it.
    replayed: Option<usize>,
}

fn difference(event: &Event, seen: &Seen) -> Option<&'static str> {
    let checks = [
        (event.key == seen.key, "another key"),
        (event.md5 == seen.md5, "another payload"),
        (event.id == seen.header_id, "another id in the header"),
        (event.is_letter() == seen.letter, "the wrong kind of topic"),
        (event.is_letter() || event.stamp == seen.timestamp_ms, "another timestamp"),
        (event.is_letter() || seen.place.0.ends_with(&event.kind), "another topic"),
    ];
    checks.into_iter().find_map(|(same, what)| (!same).then_some(what))
}

impl Verdict {
    fn complain(&mut self, what: &str, seen: &Seen, count: usize) {
        if count <= SHOWN_MAX {
            self.violations.push(format!("{what}: {seen:?}"));
        }
    }

    /// Returns the oracles that were violated, such as `L1`.
    pub(crate) fn oracles(&self) -> BTreeSet<&str> {
        self.violations.iter().filter_map(|violation| violation.split(' ').next()).collect()
    }
}
