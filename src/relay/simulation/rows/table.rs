//! Rows and messages of the simulation, and the transform.

use smallvec::{SmallVec, smallvec};

use crate::connect::NameAdjustment;
use crate::connect::column::{ColumnOptions, ColumnRules};
use crate::connect::converter::Converters;
use crate::connect::record::ProducerRecord;
use crate::outbox::{EventContext, EventRouter, EventRouterOptions, MessageOutbox, MessagePrefixes};
use crate::pgoutput::encode::encode;
use crate::pgoutput::{ColumnValue, LogicalMessage, Message, OldTuple};
use crate::postgres::{TableFilter, TableOptions};
use crate::relay::simulation::postgres::catalog::CatalogTable;
use crate::wal::{Lsn, Oid};

pub(in crate::relay::simulation) const EVENTS_TOPICS: [&str; 2] = ["outbox.event.a", "outbox.event.b"];
pub(in crate::relay::simulation) const STATE_TOPIC: &str = "state";
const TYPES: [&str; 2] = ["a", "b"];

const PREFIX: &str = "outbox";

/// Returns the router with the options that every relay of a simulation has.
pub(in crate::relay::simulation) fn router() -> EventRouter {
    let lookup = |_: &str| None;
    let options = EventRouterOptions::parse(&lookup).unwrap();
    EventRouter::new(options, Converters::parse(&lookup).unwrap(), context()).unwrap()
}

pub(super) fn context() -> EventContext {
    EventContext {
        option_prefix: String::new(),
        topic_prefix: "srv".to_owned(),
        topic_delimiter: ".".to_owned(),
        naming: Default::default(),
        run_id: None,
        columns: ColumnOptions::default(),
        condition: None,
        rules: ColumnRules::default(),
        schema_names: NameAdjustment::None,
        field_names: NameAdjustment::None,
    }
}

pub(in crate::relay::simulation) fn messages(router: &EventRouter) -> MessageOutbox {
    router.messages(MessagePrefixes::new(&[], &[]).unwrap(), &|_: &str| None).unwrap()
}

/// Returns the inserted row of an event.
pub(in crate::relay::simulation) fn insert(
    table: &CatalogTable,
    number: usize,
    topic: usize,
    key: u8,
) -> Vec<u8> {
    let (id, key, payload) = (id(number), self::key(key), payload(number));
    let value = |name: &str| match name {
        "id" => ColumnValue::Text(id.as_bytes()),
        "aggregatetype" => ColumnValue::Text(TYPES[topic].as_bytes()),
        "aggregateid" => ColumnValue::Text(key.as_bytes()),
        "type" => ColumnValue::Text(b"Happened"),
        _ => ColumnValue::Text(payload.as_bytes()),
    };
    encode(&Message::Insert {
        relation: table.oid,
        new: table.columns.names().map(value).into_iter().collect(),
    })
}

/// Returns the name of a topic by its number.
pub(in crate::relay::simulation) fn topic_name(number: usize) -> &'static str {
    EVENTS_TOPICS.get(number).copied().unwrap_or(STATE_TOPIC)
}

/// Returns the filter of captured tables: a list, or none.
pub(in crate::relay::simulation) fn filter(table_include: &[&str]) -> TableFilter {
    let table_include = table_include.iter().map(|entry| (*entry).to_owned()).collect();
    TableFilter::new(&TableOptions { table_include, ..TableOptions::default() }).unwrap()
}

/// Makes a change that makes no event.
pub(in crate::relay::simulation) fn noise(relation: Oid, deletes: bool) -> Vec<u8> {
    let row = (0..5).map(|_| ColumnValue::Null).collect();
    match deletes {
        true => encode(&Message::Delete { relation, old: OldTuple::Key(row) }),
        false => encode(&Message::Insert { relation, new: row }),
    }
}

/// Makes a logical message that is an event.
pub(in crate::relay::simulation) fn message(
    end: u64,
    transactional: bool,
    number: usize,
    topic: usize,
    key: u8,
) -> Vec<u8> {
    let (id, kind, key, payload) = (id(number), TYPES[topic], self::key(key), payload(number));
    let content =
        format!(r#"{{"id":"{id}","aggregatetype":"{kind}","aggregateid":"{key}","payload":"{payload}"}}"#);
    let content = content.as_bytes();
    let message = LogicalMessage { transactional, lsn: Lsn::new(end), prefix: PREFIX, content };
    encode(&Message::LogicalMessage(message))
}

pub(in crate::relay::simulation) fn id(number: usize) -> String {
    format!("e-{number}")
}

pub(in crate::relay::simulation) fn number_of(id: &[u8]) -> Option<usize> {
    std::str::from_utf8(id).ok()?.strip_prefix("e-")?.parse().ok()
}

pub(in crate::relay::simulation) fn key(key: u8) -> String {
    format!("k{key}")
}

/// Records of a key's events: a record alone, or one that a tombstone follows, in its topic or in the other
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay::simulation) enum Becomes {
    Record,
    RecordAndTombstone,
    RecordAndTombstoneElsewhere,
}

pub(in crate::relay::simulation) fn becomes(key: &str) -> Becomes {
    match key {
        "k0" => Becomes::RecordAndTombstone,
        "k3" => Becomes::RecordAndTombstoneElsewhere,
        _ => Becomes::Record,
    }
}

/// Applies the transform of the simulation: the outbox itself never makes several records of one event.
pub(in crate::relay::simulation) fn records_of(
    record: ProducerRecord<'_>,
) -> SmallVec<[ProducerRecord<'_>; 1]> {
    let key = record.key.and_then(|key| std::str::from_utf8(key).ok()).unwrap_or_default();
    let tombstone = ProducerRecord { value: None, ..record };
    let [a, b] = EVENTS_TOPICS;
    match becomes(key) {
        Becomes::Record => smallvec![record],
        Becomes::RecordAndTombstone => smallvec![record, tombstone],
        Becomes::RecordAndTombstoneElsewhere => {
            smallvec![record, ProducerRecord { topic: if record.topic == a { b } else { a }, ..tombstone }]
        }
    }
}

pub(in crate::relay::simulation) fn payload(number: usize) -> String {
    format!("happened {number}")
}
