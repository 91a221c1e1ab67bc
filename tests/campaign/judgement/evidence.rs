//! Reads what the oracle knows: the journal, the records, and the tables. It decides which changes the configuration lets be absent.

use std::collections::{BTreeMap, BTreeSet};

use openssl::hash::{MessageDigest, hash};
use serde_json::Value;

use crate::course::service::Role;
use crate::course::setup::FILTERED;
use crate::facts::{Change, Effect, Need, RowId, Seen, Tables};
use crate::plan::draw::Draw;
use crate::plan::feature::Feature;
use crate::support::kafka::Kafka;
use crate::support::outbox::Outbox;
use crate::support::record::Record;

/// Moments of the run by PostgreSQL's clock, in microseconds. A change that was made after one was committed after it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moments {
    /// The first relay of each service was streaming.
    pub(crate) streaming: i64,
    /// The relay with the longer list was streaming.
    pub(crate) grown: Option<i64>,
    /// A snapshot of `t_a` and `t_b` was asked for.
    pub(crate) snapshot: bool,
    /// Upper limit of the requirements on each change after the operator's remedies.
    pub(crate) most: Option<Need>,
    /// The rows that were written while the publication was without their table are sent again.
    pub(crate) gap_resent: bool,
}

/// Returns the committed changes of the tables that a service captures. Only the first service has features.
pub(crate) fn changes(db: &Outbox, draw: &Draw, moments: &Moments, role: Role) -> Vec<Change> {
    let sql = "SELECT place, row, n, effect, digest, (extract(epoch FROM at) * 1000000)::bigint,
                      EXISTS (SELECT FROM gaps WHERE gaps.place = journal.place AND at BETWEEN began AND ended),
                      place = 'outbox' AND EXISTS (SELECT FROM outbox WHERE aggregateid = row::text
                                                   AND (payload::jsonb->>'n')::bigint = n)
               FROM journal WHERE (place = 'polled') = $1 ORDER BY seq";
    let rows = db.query(sql, &[&(role == Role::Migrated)]);
    let is_second = role != Role::First;
    // A row that was deleted before the start is in no snapshot.
    let mut at_start: BTreeMap<i64, bool> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.get::<_, i64>(5) < moments.streaming) {
        at_start.insert(row.get(1), row.get::<_, &str>(3) != "d");
    }
    // Whose delete is not sent: a snapshot that is asked for later, or that follows a gap, does not read it.
    let is_gone = |row: &&tokio_postgres::Row| matches!(row.get::<_, &str>(3), "d" | "t");
    let gone: BTreeSet<i64> = rows.iter().filter(is_gone).map(|row| row.get(1)).collect();
    // Neither does one that follows a gap.
    let gone_in_gap: BTreeSet<i64> =
        rows.iter().filter(is_gone).filter(|row| row.get(6)).map(|row| row.get(1)).collect();
    let change = |row: &tokio_postgres::Row| {
        let (place, effect): (String, &str) = (row.get(0), row.get(3));
        let (number, at): (i64, i64) = (row.get(1), row.get(5));
        let has = |feature: Feature| !is_second && draw.has(feature);
        let is_early = at < moments.streaming;
        let is_partial = has(Feature::PartialSnapshot) && !draw.later.contains(&Feature::PartialSnapshot);
        let is_excluded = is_partial
            && match draw.excludes_tables() {
                true => place != "a" && place != "outbox",
                false => place == "b" && number % 2 == 1,
            };
        let is_read = draw.begins_with_snapshot()
            && !is_excluded
            && !(place == "c" && has(Feature::ListGrows))
            // It may come to a table when that has been truncated.
            || !is_second && moments.snapshot && (place == "a" || place == "b" && !draw.has(Feature::Truncated))
                && !(has(Feature::SkippedDeletes) && gone.contains(&number));
        let is_explained = effect == "t"
            || is_early && (!(is_read && at_start[&number]) || gone_in_gap.contains(&number))
            || has(Feature::Filter) && place != "outbox" && number % 8 == FILTERED
            || has(Feature::SkippedUpdates) && effect == "u"
            || has(Feature::SkippedDeletes) && effect == "d"
            || has(Feature::ListShrinks) && place == "b"
            || has(Feature::ListGrows) && place == "c" && moments.grown.is_none_or(|grown| at < grown);
        let effect = match effect {
            "e" => Effect::Event,
            "c" | "u" => Effect::Written,
            _ => Effect::Gone,
        };
        let is_in_gap = role == Role::First && row.get(6);
        let is_unread =
            gone_in_gap.contains(&number) || has(Feature::SkippedDeletes) && gone.contains(&number);
        // An event whose row is there can be read, whatever has become of the slot.
        let is_kept = row.get(7);
        let need = match effect {
            // A poller sends what is written before.
            _ if role == Role::Migrated => Need::Record,
            Effect::Written if is_in_gap && moments.gap_resent && !is_explained && !is_unread => Need::State,
            Effect::Event if is_in_gap && moments.gap_resent && !is_explained && is_kept => Need::Record,
            _ if is_in_gap => Need::Nothing,
            _ if is_explained => Need::Nothing,
            Effect::Written | Effect::Gone if is_early => Need::State,
            _ => Need::Record,
        };
        let most = moments.most.filter(|most| *most < Need::State || !is_kept);
        let need = most.map_or(need, |most| need.min(most));
        Change { row: (place, number), n: row.get(2), effect, digest: row.get(4), need }
    };
    rows.iter().map(change).collect()
}

/// Returns the rows in the tables, without the outbox.
pub(crate) fn tables(db: &Outbox) -> Tables {
    let places = db.query(
        "SELECT place, rel::text FROM places WHERE rel IS NOT NULL AND place NOT IN ('outbox', 'polled')",
        &[],
    );
    let mut tables = BTreeMap::new();
    for place in &places {
        let (name, rel): (String, String) = (place.get(0), place.get(1));
        // A child by INHERITS is a table of its own.
        let rows = db.query(&format!("SELECT id::bigint, n FROM ONLY {rel}"), &[]);
        let rows =
            if name == "p" { db.query(&format!("SELECT id::bigint, n FROM {rel}"), &[]) } else { rows };
        tables.extend(rows.iter().map(|row| ((name.clone(), row.get(0)), row.get(1))));
    }
    tables
}

/// Returns the committed records of a service, and the text of those that cannot be parsed.
pub(crate) fn seen(kafka: &Kafka, prefix: &str) -> (Vec<Seen>, Vec<String>) {
    let (mut all, mut strange) = (Vec::new(), Vec::new());
    let mut records = kafka.records_of_prefix(&format!("{prefix}."));
    // Topics come in any order, and a dead letter is before the record that is made of it.
    records.sort_by_key(|record| !record.topic.ends_with(".dead"));
    for record in records {
        // Tombstones have no contents, and events of TRUNCATE no row.
        let is_truncate = |value: &[u8]| value.windows(8).any(|part| part == b"\"op\":\"t\"");
        // `outboxd migrate rollback` writes a logical message, which is an event of a service of change events.
        if record.topic.ends_with(".message") {
            continue;
        }
        if record.topic.ends_with(".signals") || record.value.as_deref().is_none_or(is_truncate) {
            continue;
        }
        match read(&record) {
            Some(seen) => all.push(seen),
            None => {
                let value = String::from_utf8_lossy(record.value.as_deref().unwrap_or_default()).into_owned();
                strange.push(format!(
                    "strange: {:?}: {}",
                    record.place(),
                    value.chars().take(300).collect::<String>()
                ));
            }
        }
    }
    (all, strange)
}

fn read(record: &Record) -> Option<Seen> {
    let bytes = record.value.as_deref()?;
    let dead_letter = record.topic.ends_with(".dead");
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let partition = (record.topic.clone(), record.partition);
    let seen = |row: RowId, n, effect, digest, read| Seen {
        partition,
        offset: record.offset,
        key: key(record).unwrap_or_else(|| "null".to_owned()),
        row,
        n,
        effect,
        digest,
        read,
        dead_letter,
        by_poller: header(record, "poller").is_some(),
    };
    // Of an event: its payload, as it is or as a JSON text; in a dead letter perhaps the whole row.
    let row = if value["after"].is_object() { &value["after"] } else { &value };
    let payload = match &value {
        Value::String(text) => Some((text.clone(), header(record, "id")?, key(record)?)),
        _ if value.get("pad").is_some() => {
            Some((String::from_utf8(bytes.to_vec()).ok()?, header(record, "id")?, key(record)?))
        }
        _ if row.get("aggregateid").is_some() => {
            Some((text(row, "payload")?, text(row, "id")?, text(row, "aggregateid")?))
        }
        _ => None,
    };
    if let Some((payload, id, key)) = payload {
        let n = number(&serde_json::from_str(&payload).ok()?, "n")?;
        let digest = Some(md5(&format!("{id}{payload}")));
        let key = key.parse().ok()?;
        return Some(seen((place_of(key)?.to_owned(), key), Some(n), Effect::Event, digest, false));
    }
    let (op, row) = match value.get("op") {
        Some(op) => {
            (op.as_str()?, if value["after"].is_object() { &value["after"] } else { &value["before"] })
        }
        None => (value["__op"].as_str()?, &value),
    };
    let id = number(row, "id")?;
    // Of a deleted row without its values there are zeros.
    let n = number(row, "n").filter(|n| *n > 0);
    let effect = if op == "d" { Effect::Gone } else { Effect::Written };
    let v = text(row, "v").filter(|v| effect == Effect::Written && v != "__debezium_unavailable_value");
    Some(seen((place_of(id)?.to_owned(), id), n, effect, v.map(|v| md5(&v)), op == "r"))
}

pub(crate) fn place_of(id: i64) -> Option<&'static str> {
    Some(match id / 1000 {
        1 => "a",
        2 => "b",
        3 => "c",
        4 => "new",
        5 => "p",
        6 => "child",
        7 => "outbox",
        8 => "polled",
        _ => return None,
    })
}

fn key(record: &Record) -> Option<String> {
    let key = std::str::from_utf8(record.key.as_deref()?).ok()?;
    Some(key.trim_matches('"').to_owned())
}

fn header(record: &Record, name: &str) -> Option<String> {
    let (_, value) = record.headers.iter().rev().find(|(other, _)| other == name)?;
    String::from_utf8(value.clone()?).ok()
}

fn text(row: &Value, name: &str) -> Option<String> {
    row.get(name)?.as_str().map(str::to_owned)
}

/// Reads a number of a row. Dead letters of rows have numbers as texts.
fn number(row: &Value, name: &str) -> Option<i64> {
    let value = row.get(name)?;
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

fn md5(text: &str) -> String {
    let digest = hash(MessageDigest::md5(), text.as_bytes()).unwrap();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
