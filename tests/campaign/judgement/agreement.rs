//! `outboxd verify` on the same configuration must name what the oracle names, row by row.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::course::setup::FILTERED;
use crate::course::trial::Trial;
use crate::facts::{RowId, Seen, Tables};
use crate::judgement::evidence;
use crate::oracle::Verdict;
use crate::plan::feature::Feature;
use crate::planted::Planted;
use crate::support::relay::Relay;
use crate::support::wait::DEADLINE;
use crate::support::watcher::Watcher;

/// Kinds of records that a consumer lacks or has in another form.
const PROBLEMS: [&str; 7] = [
    "missing",
    "missing_or_unsent",
    "changed",
    "in_another_topic",
    "cannot_be_sent",
    "deleted_in_topic",
    "not_deleted",
];

/// Compares, adds what differs to the violations, and returns how `verify` ended.
pub(crate) fn check(trial: &Trial<'_>, verdict: &Verdict, violations: &mut Vec<String>) -> String {
    if trial.services[0].given_up.is_some() {
        return "not asked: the relay waits for a person".to_owned();
    }
    let folder = Watcher::new("outboxd-campaign-");
    let file = folder.folder().join("config.json");
    fs::write(&file, serde_json::to_vec(&trial.config()).unwrap()).unwrap();
    let planted: &[&str] =
        if trial.planted == Some(Planted::VerifyLooksAway) { &["--sample", "1%"] } else { &[] };
    let arguments = [&["verify", "-c", file.to_str().unwrap(), "--json", "--wait", "20"], planted].concat();
    let mut command = Relay::command(&arguments);
    let code = command.wait_for_exit(DEADLINE);
    let Ok(answer) = serde_json::from_str::<Value>(&command.stdout()) else {
        let reason = command.stderr().lines().next().unwrap_or_default().to_owned();
        return format!("exit {code}: {reason}");
    };
    let oracle = of_oracle(trial, verdict);
    if let Some(is_whole) = trial.moved {
        let has_repeats = verdict.repeats > 0;
        if is_whole && !oracle.is_empty() || !is_whole && oracle.is_empty() && !has_repeats {
            violations.push(format!(
                "disagreement: move verify says whole: {is_whole}, and the oracle names {oracle:?}"
            ));
        }
    }
    let verify = of_verify(trial, &answer);
    for (one, other, who) in [(&oracle, &verify, "the oracle"), (&verify, &oracle, "verify")] {
        let alone: Vec<_> = one.difference(other).collect();
        if !alone.is_empty() {
            let shown: Vec<_> = alone.iter().take(8).collect();
            let records = alone.first().map(|row| records_of(trial, row)).unwrap_or_default();
            violations.push(format!(
                "disagreement: only {who} names {} rows: {shown:?}; verify: exit {code}; of the first: {records}",
                alone.len()
            ));
        }
    }
    format!("exit {code}, {} rows named", verify.len())
}

/// Returns the rows that differ according to the oracle, of the tables that `verify` compares by the same rules.
fn of_oracle(trial: &Trial<'_>, verdict: &Verdict) -> BTreeSet<RowId> {
    // Where a transform filters rows, `verify` does not look for deleted ones.
    let is_filtered = trial.site.draw.has(Feature::Filter);
    let tables = if is_filtered { evidence::tables(&trial.site.db) } else { Tables::new() };
    let is_looked_for = |row: &&RowId| !is_filtered || tables.contains_key(*row);
    let mut rows: BTreeSet<RowId> = verdict
        .stale
        .iter()
        .filter(|row| is_row_compared(trial, row))
        .filter(is_looked_for)
        .cloned()
        .collect();
    if is_compared(trial, "outbox") {
        // Rows that were deleted are not looked for.
        let sql = "SELECT aggregateid::bigint, (payload::jsonb ->> 'n')::bigint FROM outbox";
        let there = trial.site.db.query(sql, &[]);
        let there: BTreeSet<(i64, i64)> = there.iter().map(|row| (row.get(0), row.get(1))).collect();
        let unsent = verdict.unsent.iter().filter(|((_, row), n)| there.contains(&(*row, *n)));
        rows.extend(unsent.map(|((place, row), n)| (place.clone(), row * 1_000_000 + n)));
    }
    rows
}

fn of_verify(trial: &Trial<'_>, answer: &Value) -> BTreeSet<RowId> {
    let findings = answer["findings"].as_array().cloned().unwrap_or_default();
    let named =
        findings.iter().filter(|finding| finding["problem"].as_str().is_some_and(|p| PROBLEMS.contains(&p)));
    let (seen, _) = evidence::seen(&trial.world.kafka, &trial.services[0].name);
    let rows = named.map(|finding| row_of(trial, &seen, finding).unwrap_or_else(|| (finding.to_string(), 0)));
    rows.filter(|row| is_row_compared(trial, row)).collect()
}

/// Returns number, effect and place of each record of a row, and its number in the table.
fn records_of(trial: &Trial<'_>, row: &RowId) -> String {
    let (seen, _) = evidence::seen(&trial.world.kafka, &trial.services[0].name);
    let of_row = seen.iter().filter(|record| record.row == *row);
    let records = of_row.map(|record| {
        let read = if record.read { " read" } else { "" };
        format!("{:?} {:?}{read} in {} at {}", record.n, record.effect, record.partition.1, record.offset)
    });
    let records = records.collect::<Vec<_>>().join(", ");
    format!("{records}; the table has {:?}", evidence::tables(&trial.site.db).get(row))
}

/// Returns the row of a finding by its key, its id, or the record that was found for it.
fn row_of(trial: &Trial<'_>, seen: &[Seen], finding: &Value) -> Option<RowId> {
    if let Some(id) = finding["id"].as_str() {
        if let Ok(key) = serde_json::from_str::<Value>(id) {
            let number = key["id"].as_i64()?;
            return Some((evidence::place_of(number)?.to_owned(), number));
        }
        let sql =
            "SELECT aggregateid::bigint, (payload::jsonb ->> 'n')::bigint FROM outbox WHERE id::text = $1";
        let rows = trial.site.db.query(sql, &[&id]);
        let row = rows.first()?;
        return Some(("outbox".to_owned(), row.get::<_, i64>(0) * 1_000_000 + row.get::<_, i64>(1)));
    }
    let place = &finding["records"][0];
    let at = |record: &&Seen| {
        Some(record.partition.0.as_str()) == place["topic"].as_str()
            && Some(i64::from(record.partition.1)) == place["partition"].as_i64()
            && Some(record.offset) == place["offset"].as_i64()
    };
    seen.iter().find(at).map(|record| record.row.clone())
}

/// Returns whether a row is compared. A row that a filter excludes makes no record.
fn is_row_compared(trial: &Trial<'_>, row: &RowId) -> bool {
    let is_filtered = row.0 != "outbox" && row.1 % 8 == FILTERED && trial.site.draw.has(Feature::Filter);
    is_compared(trial, &row.0) && !is_filtered
}

/// Returns whether the oracle and `verify` judge this table by the same rules.
fn is_compared(trial: &Trial<'_>, place: &str) -> bool {
    let draw = &trial.site.draw;
    let has = |features: &[Feature]| features.iter().any(|feature| draw.has(*feature));
    // The contents of records before the change of the configuration are of another form.
    let is_mixed = draw.later.iter().any(|feature| matches!(feature, Feature::Unwrap | Feature::Filter));
    let is_thinned = has(&[Feature::SkippedUpdates, Feature::SkippedDeletes]);
    match place {
        // `verify` does not look at dead letters beside tables.
        "outbox" => !(draw.shape == Feature::Both && has(&[Feature::Unroutable, Feature::TooLarge])),
        _ if is_mixed || is_thinned => false,
        "a" => {
            !(has(&[Feature::Inherited]) || draw.has(Feature::ColumnAdded) && draw.has(Feature::Rewritten))
        }
        "b" => !has(&[
            Feature::KeyColumns,
            Feature::NewPrimaryKey,
            Feature::Swapped,
            Feature::TypeChanged,
            Feature::ListShrinks,
        ]),
        "c" => !has(&[Feature::Renamed, Feature::Dropped]),
        "new" => true,
        _ => false,
    }
}
