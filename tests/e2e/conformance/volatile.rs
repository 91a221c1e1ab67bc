//! Parts of change events that differ from one run to the next, written as `tests/cases/tables` has them: positions and
//! transactions as their place among those of the case, times of the run as `NOW`, the database as `DB`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::LazyLock;

use fancy_regex::Regex;

static PATTERNS: LazyLock<Patterns> = LazyLock::new(Patterns::new);

/// Captures of a pattern.
type Captures<'t> = fancy_regex::Captures<'t, str>;

/// Masks the texts of a case's records, all together.
pub(super) fn mask(texts: &mut [&mut String], run_ms: RangeInclusive<i64>) {
    let patterns = &*PATTERNS;
    let (mut positions, mut xids) = (BTreeSet::new(), BTreeSet::new());
    for text in texts.iter() {
        patterns.collect(text, &mut positions, &mut xids);
    }
    let (positions, xids) = (ranks(&positions, "LSN"), ranks(&xids, "TX"));
    for text in texts {
        **text = patterns.masked(text, &positions, &xids, &run_ms);
    }
}

/// The place of each number.
type Ranks = BTreeMap<u64, String>;

struct Patterns {
    position: Regex,
    sequence: Regex,
    xid: Regex,
    transaction: Regex,
    database: Regex,
    time: Regex,
    event_time: Regex,
}

impl Patterns {
    fn new() -> Self {
        let compile = |pattern: &str| Regex::new(pattern).unwrap();
        // Behind a semicolon it is a part of a CloudEvent's id, where nothing is quoted.
        Self {
            event_time: compile(r#"("specversion":"1.0","type":"[^"]*","time":")([^"]*)"#),
            position: compile(r#"((?:"(?:__)?(?:source_)?|"iodebezium|;)lsn"?:"?)(\d+)"#),
            sequence: compile(
                r#"((?:"(?:__)?(?:source_)?|"iodebezium|;)sequence"?:"?\[)(null|\\"\d+\\")(,\\")(\d+)(\\"\])"#,
            ),
            xid: compile(r#"((?:"(?:__)?(?:source_)?|"iodebezium|;)txId"?:"?)(\d+)"#),
            transaction: compile(r#""(id|iodebeziumtxid)":"(\d+):(\d+)""#),
            database: compile(r#"((?:"(?:__)?(?:source_)?|"iodebezium|;)db":")([^"]*)"#),
            time: compile(r#"("(?:(?:[a-z_]*_)?ts_|iodebeziumts)(ms|us|ns)":"?)(\d+)"#),
        }
    }

    fn collect(&self, text: &str, positions: &mut BTreeSet<u64>, xids: &mut BTreeSet<u64>) {
        positions.extend(self.position.captures_iter(text).map(|found| number(&found.unwrap(), 2)));
        xids.extend(self.xid.captures_iter(text).map(|found| number(&found.unwrap(), 2)));
        xids.extend(self.transaction.captures_iter(text).map(|found| number(&found.unwrap(), 2)));
    }

    fn masked(&self, text: &str, positions: &Ranks, xids: &Ranks, run_ms: &RangeInclusive<i64>) -> String {
        let rank = |ranks: &Ranks, found: &Captures<'_>, group| ranks[&number(found, group)].clone();
        let sequence = |found: &Captures<'_>| {
            // Whether the last commit ends where this transaction begins depends on what else is written.
            let last = if &found[2] == "null" { "null" } else { r#"\"LAST\""# };
            format!("{}{last}{}{}{}", &found[1], &found[3], rank(positions, found, 4), &found[5])
        };
        let time = |found: &Captures<'_>| {
            let unit = match &found[2] {
                "ms" => 1,
                "us" => 1_000,
                _ => 1_000_000,
            };
            let of_run = found[3].parse().is_ok_and(|time: i64| run_ms.contains(&time.div_euclid(unit)));
            format!("{}{}", &found[1], if of_run { "NOW" } else { &found[3] })
        };
        let text = self.sequence.replace_all(text, sequence);
        let text = self
            .position
            .replace_all(&text, |found: &Captures<'_>| format!("{}{}", &found[1], rank(positions, found, 2)));
        let text = self
            .xid
            .replace_all(&text, |found: &Captures<'_>| format!("{}{}", &found[1], rank(xids, found, 2)));
        let text = self.transaction.replace_all(&text, |found: &Captures<'_>| {
            format!(r#""{}":"{}:LSN""#, &found[1], rank(xids, found, 2))
        });
        let text = self.database.replace_all(&text, "${1}DB");
        let event_time = |found: &Captures<'_>| {
            let of_run =
                found[2].parse::<jiff::Timestamp>().is_ok_and(|time| run_ms.contains(&time.as_millisecond()));
            format!("{}{}", &found[1], if of_run { "NOW" } else { &found[2] })
        };
        let text = self.event_time.replace_all(&text, event_time);
        self.time.replace_all(&text, time).into_owned()
    }
}

fn ranks(numbers: &BTreeSet<u64>, name: &str) -> Ranks {
    numbers.iter().zip(1..).map(|(number, place)| (*number, format!("{name}{place}"))).collect()
}

fn number(found: &Captures<'_>, group: usize) -> u64 {
    found[group].parse().unwrap()
}
