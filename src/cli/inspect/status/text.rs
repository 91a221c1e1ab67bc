//! Text of `outboxd status`.

use std::time::Duration;

use indicatif::{HumanBytes, HumanCount};

use super::direct::Direct;
use super::look::Seen;
use crate::cli::shell::text::clean;
use crate::telemetry::{Age, Lag, Overview, Part, Problem};

/// Most topics with a line; `--json` has all.
const TOPIC_LINES_MAX: usize = 10;

/// Returns the state as text, with external control characters escaped.
pub(super) fn lines(seen: &Seen) -> String {
    let lines = match seen {
        Seen::Process(_, overview) => of_process(overview),
        Seen::Database(direct) => of_database(direct),
    };
    lines.into_iter().map(|line| clean(&line) + "\n").collect()
}

/// Returns the lines of a running outboxd, of which the first is the state.
pub(in crate::cli) fn of_process(seen: &Overview) -> Vec<String> {
    let (source, slot, events) = (&seen.source, &seen.slot, &seen.events);
    let tables = if source.tables.is_empty() { "every table" } else { &source.tables };
    let mut lines = vec![format!("{} {}", seen.state.level.sign(), seen.state.words)];
    let mut field = |name: &str, text: String| lines.push(format!("  {name:<9} {text}"));
    field("source", format!("{} / {tables}, slot {}", source.database, source.slot));
    if seen.state.is_standby() {
        // It only queries PostgreSQL for the slot's reader.
        field("lag", "the instance that has the slot reports it, and the slot's runway".to_owned());
    } else {
        field("lag", lag(&seen.lag));
        let (runway, meaning) = slot.runway.words();
        let kept = slot.retained_bytes.map(|bytes| format!("keeps {} of WAL; ", HumanBytes(bytes)));
        field("slot", format!("{}runway {runway}: {meaning}", kept.unwrap_or_default()));
    }
    field(
        "events",
        format!("{} sent, {:.1}/s, {}", HumanCount(events.sent), events.per_second, events.last()),
    );
    for topic in seen.topics.iter().take(TOPIC_LINES_MAX) {
        field("", format!("{} {}, {:.1}/s", topic.topic, HumanCount(topic.events), topic.per_second));
    }
    if let Some(read) = &seen.snapshot {
        let done = read.tables.saturating_sub(read.remaining);
        let percent = read.percent.map(|percent| format!("{percent} %, ")).unwrap_or_default();
        field(
            "snapshot",
            format!("{percent}{done} of {} tables, {} rows", read.tables, HumanCount(read.rows)),
        );
    }
    for letters in &seen.dead_letters {
        field("dead", format!("{}: {}", count(letters.events, "letter"), letters.words));
    }
    for rows in &seen.rows_not_sent {
        field("not sent", format!("{} of {}: {}", count(rows.rows, "row"), rows.table, rows.reason));
    }
    lines.extend(seen.problems.iter().flat_map(problem));
    lines
}

fn count(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", HumanCount(count))
}

fn problem(problem: &Problem) -> Vec<String> {
    let what = format!("{} {}", problem.level.sign(), problem.what);
    std::iter::once(what).chain(fix(problem.fix.as_deref())).collect()
}

fn fix(fix: Option<&str>) -> impl Iterator<Item = String> {
    fix.unwrap_or_default().lines().enumerate().map(|(number, line)| match number {
        0 => format!("    to fix: {line}"),
        _ => format!("            {line}"),
    })
}

fn lag(lag: &Lag) -> String {
    let postgres = match (lag.postgres_bytes(), lag.unseen_seconds) {
        (Some(bytes), _) => HumanBytes(bytes).to_string(),
        (None, unseen) => format!("unknown, not seen for {}", age(unseen.unwrap_or_default())),
    };
    format!(
        "{}, oldest {}   PostgreSQL {postgres} · outboxd {} · Kafka {} in {} records",
        lag.whole(),
        age(lag.seconds),
        part(lag.outboxd),
        part(lag.kafka),
        HumanCount(lag.records)
    )
}

fn part(part: Part) -> String {
    HumanBytes(part.bytes).to_string()
}

fn of_database(seen: &Direct) -> Vec<String> {
    let sign = match (&seen.lost, &seen.holder) {
        (Some(_), _) => "✗",
        (None, None) => "!",
        (None, Some(_)) => "✓",
    };
    let state = match (&seen.lost, &seen.holder) {
        (Some(reason), _) => format!("lost: {reason}"),
        (None, Some(holder)) => format!("read by {holder}"),
        (None, None) => "no client reads it".to_owned(),
    };
    let sign = if seen.stopped.is_some() { "✗" } else { sign };
    let mut lines = vec![format!("{sign} slot {}: {state}", seen.slot)];
    lines.extend(seen.stopped.as_ref().map(|reason| format!("  stopped   {reason}")));
    let mut field = |name: &str, text: String| lines.push(format!("  {name:<9} {text}"));
    if let Some(database) = &seen.database {
        field("source", database.clone());
    }
    if let Some(since) = seen.inactive_since.as_ref().filter(|_| seen.holder.is_none()) {
        field("unread", format!("since {since}"));
    }
    let confirmed = seen.confirmed.as_deref().unwrap_or("nothing");
    let bytes = seen.lag_bytes.map_or_else(|| "not known".to_owned(), |bytes| HumanBytes(bytes).to_string());
    field("lag", format!("{bytes} of WAL not confirmed: {confirmed} of {}", seen.server));
    let status = seen.wal_status.as_deref().unwrap_or("no WAL");
    let room = seen
        .safe_wal_bytes
        .filter(|_| seen.lost.is_none())
        .map(|room| u64::try_from(room).unwrap_or_default());
    let room = room.map(|room| format!(", lost after {} more", HumanBytes(room))).unwrap_or_default();
    field("slot", format!("keeps {} of WAL ({status}){room}", HumanBytes(seen.retained_bytes)));
    let (runway, meaning) = seen.runway.words();
    field("runway", format!("{runway}: {meaning}"));
    lines.extend(fix(seen.fix.as_deref()));
    lines
}

/// Formats a duration as `12.5 min`; an invalid one is 0.
pub(in crate::cli) fn age(seconds: f64) -> String {
    Age(Duration::try_from_secs_f64(seconds).unwrap_or_default()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::SlotFacts;
    use crate::wal::Lsn;

    fn told(facts: SlotFacts, rate: Option<u64>) -> String {
        let direct = Direct::of("orders".to_owned(), &facts, rate);
        let object = serde_json::to_value(&direct).unwrap();
        assert_eq!((&object["fix"], &object["cure"]), (&direct.fix.clone().into(), &object["fix"]));
        of_database(&direct).join("\n")
    }

    #[test]
    fn the_reader_of_a_slot_and_its_runway_are_shown_with_the_fix() {
        let facts = |active_pid, wal_status: &str, safe_wal_bytes| SlotFacts {
            active_pid,
            wal_status: Some(wal_status.to_owned()),
            safe_wal_bytes,
            confirmed_flush_lsn: Some(Lsn::new(0x10)),
            server_lsn: Lsn::new(0x810),
            plugin: Some("pgoutput".to_owned()),
            database: Some("orders".to_owned()),
            application: None,
            client: None,
            restart_lsn: None,
            retained_bytes: 56,
            invalidation_reason: None,
            inactive_since: None,
            two_phase: false,
            failover: None,
        };
        let limit = Some(36_000_000);
        type Case<'c> = (SlotFacts, Option<u64>, &'c [&'c str], Option<&'c str>);
        let cases: [Case<'_>; 5] = [
            (
                facts(Some(7), "reserved", limit),
                Some(1000),
                &["✓ slot orders: read by pid 7", "runway    10.0 h: "],
                None,
            ),
            (
                facts(None, "reserved", limit),
                Some(0),
                &["! slot orders: no client reads it", ", lost after 34.33 MiB more", "runway    no end: "],
                Some("start outboxd run"),
            ),
            (
                facts(None, "extended", None),
                Some(1000),
                &["runway    unknown: max_slot_wal_keep_size sets no limit"],
                Some("start outboxd run"),
            ),
            (facts(None, "unreserved", Some(-1)), Some(1000), &["runway    over: "], Some("at once")),
            (
                facts(Some(7), "unreserved", Some(-1)),
                Some(1000),
                &["read by"],
                Some("max_slot_wal_keep_size"),
            ),
        ];
        for (facts, rate, expected, fix) in cases {
            let text = told(facts, rate);
            assert!(expected.iter().all(|part| text.contains(part)), "{text}");
            assert_eq!(text.contains("to fix: "), fix.is_some(), "{text}");
            assert!(fix.is_none_or(|fix| text.contains(fix)), "{text}");
        }
    }
}
