//! Change events of the simulation: rows are inserted, updated and deleted, and all that becomes of them goes to one topic.

use fastrand::Rng;
use serde_json::Value as Json;

use super::table::{self, EVENTS_TOPICS};
use crate::change::ChangeEvents;
use crate::connect::record::ProducerRecord;
use crate::pgoutput::encode::encode;
use crate::pgoutput::{ColumnValue, Message, OldTuple, Tuple};
use crate::relay::simulation::oracle::truth::{Event, Row, Truth};
use crate::relay::simulation::postgres::catalog::CatalogTable;

const JSON: &str = "org.apache.kafka.connect.json.JsonConverter";
const OPTIONS: [(&str, &str); 8] = [
    ("key.converter", JSON),
    ("key.converter.schemas.enable", "false"),
    ("value.converter", JSON),
    ("value.converter.schemas.enable", "false"),
    ("transforms", "one"),
    ("transforms.one.type", "org.apache.kafka.connect.transforms.RegexRouter"),
    ("transforms.one.regex", ".*"),
    ("transforms.one.replacement", EVENTS_TOPICS[0]),
];

/// Returns the conversion that every relay applies to rows.
pub(in crate::relay::simulation) fn route() -> ChangeEvents {
    let lookup =
        |key: &str| OPTIONS.iter().find(|(option, _)| *option == key).map(|(_, value)| (*value).to_owned());
    ChangeEvents::parse(&lookup, table::context(), "db").unwrap()
}

/// Changes a row. A changed key is a delete, its tombstone and a create.
pub(in crate::relay::simulation) fn change(
    relation: &CatalogTable,
    row: Row,
    rng: &mut Rng,
    truth: &mut Truth,
    commit_lsn: u64,
) -> Vec<u8> {
    let event =
        |of| Event { commit_lsn, topic: 0, key: 0, of, row: Some(row), excused: false, written: false };
    let first = truth.commit(event(None));
    let kind = rng.u8(..);
    let last = match kind {
        0..180 => first,
        180..215 => truth.commit(event(Some(first))),
        215.. => {
            truth.commit(event(Some(first)));
            truth.commit(event(None))
        }
    };
    let ([old, new], payload) = ([first, last].map(table::id), table::payload(last));
    let (old, new) = (row_of(relation, &old, None), row_of(relation, &new, Some(&payload)));
    let relation = relation.oid;
    encode(&match kind {
        0..130 => Message::Insert { relation, new },
        130..180 => Message::Update { relation, old: None, new },
        180..215 => Message::Delete { relation, old: OldTuple::Key(old) },
        215.. => Message::Update { relation, old: Some(Box::new(OldTuple::Key(old))), new },
    })
}

/// Returns the event of a record, which its key names.
pub(in crate::relay::simulation) fn number_of(record: &ProducerRecord<'_>) -> Option<usize> {
    let key: Json = serde_json::from_slice(record.key?).ok()?;
    let number = table::number_of(key["id"].as_str()?.as_bytes())?;
    Some(number + usize::from(record.value.is_none()))
}

/// Returns whether a record is what an event must become.
pub(in crate::relay::simulation) fn is_of(record: &ProducerRecord<'_>, event: &Event, number: usize) -> bool {
    let Some(value) = record.value else { return event.of.is_some() };
    let value: Json = serde_json::from_slice(value).unwrap_or_default();
    let (id, payload) = (table::id(number), table::payload(number));
    let is_row = match value["op"].as_str() {
        Some("d") => value["before"]["id"] == *id,
        Some("c" | "u") => {
            let after = value["after"].as_object();
            value["after"]["id"] == *id && after.is_some_and(|row| row.values().any(|it| *it == *payload))
        }
        _ => false,
    };
    is_row && event.of.is_none() && record.topic == EVENTS_TOPICS[event.topic]
}

/// Makes a row that has these values in its columns.
fn row_of<'v>(relation: &CatalogTable, id: &'v str, other: Option<&'v str>) -> Tuple<'v> {
    let other = other.map_or(ColumnValue::Null, |other| ColumnValue::Text(other.as_bytes()));
    let value = |name| if name == "id" { ColumnValue::Text(id.as_bytes()) } else { other };
    relation.columns.names().map(value).into_iter().collect()
}
