//! `outboxd dlq ls`.

use std::collections::BTreeMap;

use indicatif::HumanCount;
use serde_json::{Value, json};

use super::Context;
use super::args::LsArgs;
use super::error::DlqError;
use super::index::{Index, Keep};
use super::letter::{Cause, Letter};
use super::state::Outcome;
use crate::cli::shell::text::clean;
use crate::cli::shell::time;
use crate::error::Exit;

/// Setting with which dead letters of outboxd name their origin and reason.
pub(super) const CONTEXT_HEADERS: &str = "errors.deadletterqueue.context.headers.enable=true";

/// Dead letters with the same cause.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    letters: u64,
    first_ms: Option<i64>,
    last_ms: Option<i64>,
}

/// Numbers of dead letters that are settled.
#[derive(Debug, Clone, Copy)]
struct Settled {
    replayed: u64,
    discarded: u64,
}

impl Count {
    /// Counts a dead letter, with or without a time.
    fn add(&mut self, when_ms: Option<i64>) {
        self.letters = self.letters.saturating_add(1);
        self.first_ms = self.first_ms.into_iter().chain(when_ms).min();
        self.last_ms = self.last_ms.max(when_ms);
    }
}

/// Runs `outboxd dlq ls`.
pub(super) fn ls(args: &LsArgs, context: &Context) -> Result<Exit, DlqError> {
    let Context { source, stop, progress } = context;
    let states = source.states(stop)?;
    let mut index = Index::read(source, &args.filter, &states, Keep::Selected, stop, progress)?;
    if context.is_interrupted() {
        return Ok(Exit::Interrupted);
    }
    let settled = |outcome: &str| {
        let named = |letter: &&Letter| letter.outcome.as_ref().is_some_and(|found| found.name() == outcome);
        u64::try_from(index.letters.iter().filter(named).count()).unwrap_or(u64::MAX)
    };
    let totals = Settled { replayed: settled("replayed"), discarded: settled("discarded") };
    index.letters.retain(|letter| args.all || letter.outcome.is_none());
    let text = match (args.json, args.records) {
        (false, false) => table(&groups(&index)) + &foot(&context.source.topic, &index, totals),
        (false, true) => lines(&index) + &foot(&context.source.topic, &index, totals),
        (true, records) => object(&context.source.topic, &index, totals, records).to_string() + "\n",
    };
    context.print(&text);
    Ok(Exit::Ok)
}

/// Returns the groups, those with the most dead letters first.
fn groups(index: &Index) -> Vec<(&Cause, Count)> {
    let mut counts: BTreeMap<usize, Count> = BTreeMap::new();
    for letter in &index.letters {
        counts.entry(letter.cause).or_default().add(letter.when_ms);
    }
    let named = |(number, count)| Some((index.causes.get(number)?, count));
    let mut groups: Vec<_> = counts.into_iter().filter_map(named).collect();
    groups.sort_by(|(a, one), (b, other)| other.letters.cmp(&one.letters).then_with(|| a.cmp(b)));
    groups
}

fn table(groups: &[(&Cause, Count)]) -> String {
    let or_dash = |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), clean);
    let at = |millis: Option<i64>| millis.map_or_else(|| "-".to_owned(), time::show);
    let mut rows =
        vec![["LETTERS", "FIRST", "LAST", "FROM", "CONSUMER", "REASON", "EXCEPTION"].map(str::to_owned)];
    rows.extend(groups.iter().map(|(cause, count)| {
        [
            HumanCount(count.letters).to_string(),
            at(count.first_ms),
            at(count.last_ms),
            or_dash(&cause.topic),
            or_dash(&cause.consumer),
            or_dash(&cause.reason),
            or_dash(&cause.exception),
        ]
    }));
    if groups.is_empty() { String::new() } else { aligned(&rows) + "\n" }
}

fn lines(index: &Index) -> String {
    let mut rows = Vec::new();
    for letter in &index.letters {
        let Some(cause) = index.cause(letter) else { continue };
        rows.push([
            format!("{}:{}", letter.partition, letter.offset),
            letter.when_ms.map_or_else(|| "-".to_owned(), time::show),
            origin(letter, cause),
            cause.reason.as_deref().map_or_else(|| "-".to_owned(), clean),
            cause.exception.as_deref().map_or_else(|| "-".to_owned(), clean),
            outcome(letter.outcome.as_ref()),
        ]);
    }
    if rows.is_empty() { String::new() } else { aligned(&rows) + "\n" }
}

/// Returns `topic[partition]@offset`, as far as it is known.
fn origin(letter: &Letter, cause: &Cause) -> String {
    let Some(topic) = &cause.topic else { return "-".to_owned() };
    let partition = letter.origin_partition.map(|number| format!("[{number}]")).unwrap_or_default();
    let offset = letter.origin_offset.map(|number| format!("@{number}")).unwrap_or_default();
    format!("{}{partition}{offset}", clean(topic))
}

pub(super) fn outcome(outcome: Option<&Outcome>) -> String {
    match outcome {
        None => "open".to_owned(),
        Some(Outcome::Replayed { to }) => format!("replayed to {}", clean(to)),
        Some(Outcome::Discarded) => "discarded".to_owned(),
    }
}

/// Aligns columns two spaces apart; numbers of dead letters, in the first one, to the left like the rest.
fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn foot(topic: &str, index: &Index, Settled { replayed, discarded }: Settled) -> String {
    let listed = u64::try_from(index.letters.len()).unwrap_or(u64::MAX);
    let plural = if listed == 1 { "dead letter" } else { "dead letters" };
    let listed = HumanCount(listed);
    let foot = format!(
        "{topic}: {listed} {plural}; {} sent again before, {} discarded\n",
        HumanCount(replayed),
        HumanCount(discarded)
    );
    let tells_nothing = |letter: &&Letter| index.cause(letter).is_none_or(|cause| cause.dialect.is_none());
    match index.letters.iter().filter(tells_nothing).count() {
        0 => foot,
        mute => format!(
            "{foot}{} of them: no header has the reason. With {CONTEXT_HEADERS} later dead letters of outboxd have it\n",
            HumanCount(u64::try_from(mute).unwrap_or(u64::MAX))
        ),
    }
}

fn object(topic: &str, index: &Index, Settled { replayed, discarded }: Settled, records: bool) -> Value {
    let group = |(cause, count): &(&Cause, Count)| {
        json!({
            "letters": count.letters, "first": count.first_ms, "last": count.last_ms,
            "dialect": cause.dialect, "topic": cause.topic, "consumer": cause.consumer,
            "reason": cause.reason, "exception": cause.exception,
        })
    };
    let mut object = json!({
        "topic": topic, "letters": index.letters.len(), "replayed": replayed, "discarded": discarded,
        "groups": groups(index).iter().map(group).collect::<Vec<_>>(),
    });
    if let Some(fields) = object.as_object_mut().filter(|_| records) {
        let record = |letter: &Letter| {
            let cause = index.cause(letter);
            json!({
                "partition": letter.partition, "offset": letter.offset, "when": letter.when_ms,
                "topic": cause.map(|cause| &cause.topic), "reason": cause.map(|cause| &cause.reason),
                "exception": cause.map(|cause| &cause.exception), "dialect": cause.map(|cause| cause.dialect),
                "origin_partition": letter.origin_partition, "origin_offset": letter.origin_offset,
                "replays": letter.replays, "outcome": letter.outcome.as_ref().map(Outcome::name),
            })
        };
        fields.insert("records".to_owned(), index.letters.iter().map(record).collect());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_letter_without_a_time_changes_neither_the_first_nor_the_last() {
        let mut count = Count::default();
        for when_ms in [None, Some(7), None, Some(3), Some(5), None] {
            count.add(when_ms);
        }
        assert_eq!((count.letters, count.first_ms, count.last_ms), (6, Some(3), Some(7)));
    }
}
