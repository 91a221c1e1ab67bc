//! The oracle. Read this file first: it decides whether a run has lost, repeated, altered, reordered or invented anything.
//!
//! It knows the events that were sent, the rows that handlers left in the tables, the ids in the dead-letter topic, and what an operator
//! asked for. It shares no code with the crate.

use std::collections::{BTreeMap, BTreeSet};

/// The fate that an event must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Applied, and no dead letter.
    Applied,
    /// A dead letter, and not applied.
    DeadLetter,
    /// A dead letter, and applied or not: a handler that ends the inbox's transaction writes its effect outside of any.
    DeadLetterAnyhow,
    /// Applied, or a dead letter.
    Either,
}

/// An event that was sent, once or several times.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) key: String,
    pub(crate) number: i64,
    pub(crate) amount: i64,
    pub(crate) need: Need,
}

/// A row of the table `effects`, in the order of the rows' numbers.
#[derive(Debug, Clone)]
pub(crate) struct Effect {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) number: i64,
    pub(crate) amount: i64,
}

/// Operations that were asked for. A command that failed may have been carried out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Operations {
    /// These need not be applied.
    pub(crate) skipped: BTreeSet<String>,
    /// These may be applied once more for each time.
    pub(crate) forgotten: BTreeMap<String, usize>,
    /// Dead letters that were sent again: they may be applied, and late.
    pub(crate) replayed: BTreeSet<String>,
    /// Dead letters of a database that was put back to an older state, which does not know them: they may be applied.
    pub(crate) restored: BTreeSet<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) sent: BTreeMap<String, Sent>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) dead_letters: Vec<String>,
    /// The balance of each key, written beside the effects.
    pub(crate) balances: BTreeMap<String, i64>,
    pub(crate) operations: Operations,
    pub(crate) outages: Outages,
}

/// Events that were given up because the other service was away.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    pub(crate) given_up: BTreeSet<String>,
    /// A few for each consumer at the beginning of an outage: the guard looks at three failures, and the waits of a run are shorter than
    /// its outage.
    pub(crate) given_up_max: usize,
}

impl Outages {
    /// Reports whether the event may have been given up for an outage.
    fn excuse(&self, id: &str) -> bool {
        self.given_up.contains(id) && self.given_up.len() <= self.given_up_max
    }
}

/// Returns the violations. Each begins with its rule.
pub(crate) fn judge(facts: &Facts) -> BTreeSet<String> {
    let mut violations = BTreeSet::new();
    let mut violate = |rule: &str, what: &str| violations.insert(format!("{rule}: {what}"));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
    let mut greatest: BTreeMap<&str, i64> = BTreeMap::new();
    for effect in &facts.effects {
        let Effect { id, key, number, amount } = effect;
        *sums.entry(key).or_default() += amount;
        let count = counts.entry(id).or_default();
        *count += 1;
        let Some(sent) = facts.sent.get(id) else {
            violate("invented", &format!("{id} was not sent"));
            continue;
        };
        if (key, number, amount) != (&sent.key, &sent.number, &sent.amount) {
            violate("altered", &format!("{id} is applied as {effect:?}, sent as {sent:?}"));
        }
        if sent.need == Need::DeadLetterAnyhow {
            continue;
        }
        let last = greatest.entry(key).or_insert(i64::MIN);
        if number < last && *count == 1 && !facts.operations.replayed.contains(id) {
            violate("reordered", &format!("{id}, number {number} of {key}, is applied after number {last}"));
        }
        *last = (*last).max(*number);
    }
    let dead: BTreeSet<&str> = facts.dead_letters.iter().map(String::as_str).collect();
    for id in dead.iter().filter(|id| !facts.sent.contains_key(**id)) {
        violate("invented", &format!("{id} is a dead letter and was not sent"));
    }
    for (id, sent) in &facts.sent {
        let (count, is_dead) = (counts.get(&**id).copied().unwrap_or_default(), dead.contains(&**id));
        let (skipped, replayed) =
            (facts.operations.skipped.contains(id), facts.operations.replayed.contains(id));
        let what = format!("{id}, number {} of {}, {:?}", sent.number, sent.key, sent.need);
        let most = 1 + facts.operations.forgotten.get(id).copied().unwrap_or_default();
        if count > most && sent.need != Need::DeadLetterAnyhow {
            violate("repeated", &format!("{what}, is applied {count} times"));
        }
        if count == 0 && !is_dead && !skipped {
            violate("lost", &what);
        }
        match sent.need {
            Need::Applied if is_dead && !facts.outages.excuse(id) => {
                let outages = &facts.outages;
                violate(
                    "given up",
                    &format!("{what}; in outages {:?}, at most {}", outages.given_up, outages.given_up_max),
                );
            }
            Need::DeadLetter if count > 0 => {
                violate("applied", &format!("{what}, is applied"));
            }
            Need::DeadLetterAnyhow if !is_dead && !skipped => {
                violate("believed", &format!("{what}, is no dead letter"));
            }
            Need::Either if is_dead && count > 0 && !replayed && !facts.operations.restored.contains(id) => {
                violate("both", &what);
            }
            _ => {}
        }
    }
    for (key, sum) in &facts.balances {
        let expected = sums.remove(&**key).unwrap_or_default();
        if *sum != expected {
            violate("torn", &format!("the balance of {key} is {sum}, its events have {expected}"));
        }
    }
    for (key, sum) in sums {
        violate("torn", &format!("{key} has no balance, its events have {sum}"));
    }
    violations
}
