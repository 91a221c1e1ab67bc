//! Report of `outboxd explain`.

use indicatif::{HumanBytes, HumanCount};

use super::missing_facts::{MissingFact, missing_facts};
use super::records::{FoundRecord, RECORDS_MAX, Records};
use super::rows::FoundRow;
use super::story::{Passed, Standing, Story};
use crate::cli::shell::text::clean;
use crate::cli::shell::time;

/// Most rows and records with a line; `--json` has up to a thousand.
const LINES_MAX: usize = 20;

/// Maximum number of dead letters in a command.
const LETTERS_MAX: usize = 5;

/// The name of a record that has the id of the row, and another topic, key, value or header.
const OTHER: &str = "same id";

/// Returns the report as text.
pub(super) fn lines(story: &Story) -> String {
    let mut lines = vec![story.wanted.text.clone()];
    let mut field = |name: &str, text: String| lines.push(format!("  {name:<9} {text}"));
    for row in story.rows.iter().take(LINES_MAX) {
        field("row", self::row(row));
        if story.is_behind(row) {
            let what = "none of its records has this transaction: its change is not sent yet or was skipped \
                        (skipped.operations, a filter), or was made behind a savepoint";
            field("row", what.to_owned());
        }
    }
    if story.rows.is_empty() && story.wanted.lsn.is_none() {
        field("row", no_row(story));
    }
    story.unread.iter().for_each(|why| field("row", format!("not searched: {why}")));
    for record in story.records.sent.iter().take(LINES_MAX) {
        let name = if story.is_repeat(record) { "repeated" } else { "sent" };
        field(if record.may_be_it() { name } else { OTHER }, self::record(record));
    }
    if let Some(text) = not_shown(&story.records) {
        field("sent", text);
    }
    for letter in story.records.dead_letters.iter().take(LINES_MAX) {
        field(if letter.may_be_it() { "dead" } else { OTHER }, record(letter));
    }
    if !story.records.sent.iter().any(FoundRecord::may_be_it) {
        let topics = if story.topics.is_empty() { "no topic".to_owned() } else { story.topics.join(", ") };
        field("sent", format!("no record among {} of {topics}", HumanCount(story.records.searched)));
    }
    if let Some(why) = &story.records.unread_because {
        let records = records(story.records.unread);
        field("not read", format!("{records} could not be read: {why}"));
    }
    field("slot", slot(story));
    story.groups.iter().take(LINES_MAX).for_each(|passed| field("group", group(passed)));
    missing_facts(story).iter().for_each(|missing| field("unknown", self::missing(missing)));
    lines.push(standing(story));
    lines.into_iter().map(|line| clean(&line) + "\n").collect()
}

fn no_row(story: &Story) -> String {
    if let Some(last) = story.not_deleted() {
        let operation = last.operation.unwrap_or_default();
        return format!(
            "in none of the tables, but its last record is no delete ({operation}): the delete is not sent yet or was \
             skipped (skipped.operations, a filter), or the table was truncated"
        );
    }
    match story.keyless.as_slice() {
        [] if !story.unread.is_empty() => "in none of the tables that could be searched".to_owned(),
        [] => "in none of the tables: deleted, or never written".to_owned(),
        tables => format!(
            "in none of the tables with a key: deleted, or never written; not searched: {}",
            tables.join(", ")
        ),
    }
}

fn row(row: &FoundRow) -> String {
    let committed = row.committed.as_ref().map(|at| format!(", committed {at}")).unwrap_or_default();
    let id = row.id.as_ref().map(|id| format!(" id {id}")).unwrap_or_default();
    let key = row.key.as_deref().unwrap_or("null");
    format!("{}{id} key {key}, transaction {}{committed}", row.table, row.transaction)
}

fn record(record: &FoundRecord) -> String {
    let FoundRecord { topic, partition, offset, .. } = record;
    let mut text = format!("{topic}[{partition}]@{offset}");
    if !record.may_be_it() {
        text.push_str("  is not the row's: its topic, key, value or headers differ");
    }
    text.extend(record.operation.map(|operation| format!("  {operation}")));
    if let Some(at) = record.timestamp_ms {
        let what = if record.is_time_of_arrival { "acknowledged" } else { "timestamp" };
        text.push_str(&format!("  {what} {}", time::show(at)));
    }
    if let Some(position) = &record.position {
        text.push_str(&format!("  {}", position.text()));
    }
    text
}

/// Returns how many records of a key are not shown.
fn not_shown(records: &Records) -> Option<String> {
    let more = records.sent.len().checked_sub(LINES_MAX).filter(|more| *more > 0)?;
    let [more, at_most] =
        [more, RECORDS_MAX].map(|count| HumanCount(u64::try_from(count).unwrap_or(u64::MAX)));
    Some(match records.more {
        false => format!("… and {more} more: --json has them all"),
        true => {
            format!("… and more than {more} more: --json has the first {at_most}; --since TIME begins later")
        }
    })
}

fn slot(story: &Story) -> String {
    let Some(slot) = &story.slot else { return format!("there is no slot {}", story.slot_name) };
    let confirmed = slot.confirmed_flush_lsn.unwrap_or_default();
    let reader = match slot.active_pid {
        Some(pid) => format!("read by pid {pid}"),
        None => "no client reads it".to_owned(),
    };
    let left = slot.server_lsn.bytes_since(confirmed);
    format!("{} confirmed to {confirmed}, {} to go, {reader}", story.slot_name, HumanBytes(left))
}

fn group(passed: &Passed) -> String {
    let Passed { group, topic, partition, offset, .. } = passed;
    let place = format!("{topic}[{partition}]@{offset}");
    match (passed.passed, passed.committed) {
        (true, _) => format!("{group} has passed {place}"),
        (false, Some(at)) => format!("{group} has not come to {place}: it is at {at}"),
        (false, None) => format!("{group} has not come to {place}: it has committed nothing there"),
    }
}

fn missing(MissingFact { what, needs, of }: &MissingFact) -> String {
    format!("{what}: set {needs} {of}")
}

fn standing(story: &Story) -> String {
    let slot = &story.slot_name;
    let times = story.records.sent.iter().filter(|record| record.may_be_it()).count();
    match story.standing() {
        Standing::Arrived if story.records.sent.iter().any(|record| record.may_be_it() && story.is_repeat(record)) => {
            format!("✓ in Kafka, {times} records: consumers recognize repeats by the header id")
        }
        Standing::Arrived if story.records.more => format!("✓ in Kafka, more than {times} records"),
        Standing::Arrived => format!("✓ in Kafka, {times} {}", if times == 1 { "record" } else { "records" }),
        Standing::DeadLetter => {
            let letter = dead_letters(story);
            let mut letters = story.records.dead_letters.iter().filter(|letter| letter.may_be_it());
            let next = if letters.any(|letter| letter.lacks_record) {
                format!(
                    "it has no record to send again: insert the event again, then outboxd dlq discard{letter} -c FILE --yes"
                )
            } else {
                format!("outboxd dlq replay{letter} -c FILE --execute sends it again")
            };
            format!("! a dead letter: outboxd dlq show{letter} -c FILE shows the reason, {next}")
        }
        Standing::NoSlot => {
            format!("✗ not sent: there is no slot {slot}{}", next_start(story))
        }
        Standing::SlotLost => {
            format!(
                "✗ not sent: slot {slot} is lost. outboxd move plan -c FILE shows how to send what Kafka has not; -X \
                 slot.recovery=snapshot sends what is in the table"
            )
        }
        Standing::NobodyReads => format!("! not sent yet: no client reads slot {slot}. Start outboxd run"),
        Standing::OnTheWay => {
            "! not in Kafka yet: the slot has not come to the end of the WAL. outboxd lag --watch shows how far it is"
                .to_owned()
        }
        Standing::Missing => {
            "✗ not in Kafka, and the slot is past it: older than the slot, deleted by retention, or not sent on \
             purpose (rows not sent, on the status page). outboxd verify compares all rows"
                .to_owned()
        }
        Standing::Unread => {
            format!(
                "! not found, but it may be among the {} that could not be read. --id looks at ids alone, which need no schema",
                records(story.records.unread)
            )
        }
        Standing::Unplaced => {
            format!(
                "! not found, but it may be one of the {} that have no LSN: search \
                 by id or key instead",
                records(story.records.without_position)
            )
        }
        Standing::Unknown => format!("✗ not found: no row, no record, no dead letter{}", unread_wal(story)),
    }
}

/// Mentions WAL that is not confirmed: a row that was inserted and deleted in one transaction, as some outboxes do, is only there.
fn unread_wal(story: &Story) -> String {
    let slot = story.slot.as_ref().filter(|slot| slot.invalidation().is_none());
    let bytes = slot.and_then(|slot| Some(slot.server_lsn.bytes_since(slot.confirmed_flush_lsn?)));
    match bytes {
        Some(bytes @ 1..) => format!(
            ". {} of WAL are not confirmed yet: a row that was inserted and deleted again is only there. outboxd lag -c FILE shows how far \
             the slot is",
            HumanBytes(bytes)
        ),
        _ => String::new(),
    }
}

fn next_start(story: &Story) -> String {
    let Some((summary, fix)) = &story.next_start else { return String::new() };
    let fix = fix.as_ref().map(|fix| format!(". {fix}")).unwrap_or_default();
    format!(". {summary}{fix}")
}

/// Lists the dead letters as arguments of `outboxd dlq`.
fn dead_letters(story: &Story) -> String {
    let letters = story.records.dead_letters.iter().filter(|letter| letter.may_be_it()).take(LETTERS_MAX);
    letters.map(|letter| format!(" {}:{}", letter.partition, letter.offset)).collect()
}

fn records(count: u64) -> String {
    format!("{} {}", HumanCount(count), if count == 1 { "record" } else { "records" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_shown_is_reported() {
        let record = FoundRecord {
            operation: None,
            transaction: None,
            topic: "t".to_owned(),
            partition: 0,
            offset: 0,
            timestamp_ms: None,
            is_time_of_arrival: false,
            event_id: None,
            position: None,
            is_of_row: None,
            lacks_record: false,
        };
        let told = |count: usize, more| {
            not_shown(&Records { sent: vec![record.clone(); count], more, ..Records::default() })
        };
        assert_eq!(told(LINES_MAX, false), None);
        assert_eq!(told(LINES_MAX + 1, false).unwrap(), "… and 1 more: --json has them all");
        let limit = "… and more than 980 more: --json has the first 1,000; --since TIME begins later";
        assert_eq!(told(RECORDS_MAX, true).unwrap(), limit);
    }
}
