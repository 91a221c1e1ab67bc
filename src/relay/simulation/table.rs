//! The outbox table of the simulation, in two shapes, and the transform.

use smallvec::{SmallVec, smallvec};

use crate::connect::NameAdjustment;
use crate::connect::column::{ColumnDescription, ColumnOptions, ColumnRules, TypeKind};
use crate::connect::converter::Converters;
use crate::connect::record::ProducerRecord;
use crate::outbox::{EventContext, EventRouter, EventRouterOptions, MessageOutbox, MessagePrefixes};
use crate::pgoutput::encode::encode;
use crate::pgoutput::{Column, ColumnValue, LogicalMessage, Message, OldTuple, Relation, ReplicaIdentity};
use crate::relay::capture::NotSent;
use crate::relay::table::Table;
use crate::wal::{Lsn, Oid};

pub(super) const EVENTS_TOPICS: [&str; 2] = ["outbox.event.a", "outbox.event.b"];
pub(super) const STATE_TOPIC: &str = "state";
const TYPES: [&str; 2] = ["a", "b"];

pub(super) const OUTBOX: Oid = Oid(16_384);
/// A table that is not captured.
pub(super) const OTHER: Oid = Oid(16_400);
const PREFIX: &str = "outbox";

/// The table before and after a column was dropped and added again: the order of the columns.
pub(super) const SHAPES: [[&str; 5]; 2] = [
    ["id", "aggregatetype", "aggregateid", "type", "payload"],
    ["id", "type", "aggregatetype", "payload", "aggregateid"],
];

/// The options that every relay of a simulation has.
pub(super) fn router() -> EventRouter {
    let lookup = |_: &str| None;
    let context = EventContext {
        option_prefix: String::new(),
        topic_prefix: "srv".to_owned(),
        topic_delimiter: ".".to_owned(),
        run_id: None,
        columns: ColumnOptions::default(),
        condition: None,
        rules: ColumnRules::default(),
        schema_names: NameAdjustment::None,
        field_names: NameAdjustment::None,
    };
    let options = EventRouterOptions::parse(&lookup).unwrap();
    EventRouter::new(options, Converters::parse(&lookup).unwrap(), context).unwrap()
}

pub(super) fn messages(router: &EventRouter) -> MessageOutbox {
    router.messages(MessagePrefixes::new(&[], &[]).unwrap(), &|_: &str| None).unwrap()
}

pub(super) fn bind(router: &EventRouter, relation: &Relation) -> Table {
    if relation.oid != OUTBOX {
        return Table::NotCaptured(NotSent::default());
    }
    let description = |column: &Column| ColumnDescription {
        name: column.name.clone(),
        type_oid: column.type_oid,
        type_modifier: -1,
        kind: TypeKind::base("varchar"),
        not_null: true,
        default: None,
    };
    let columns: Vec<_> = relation.columns.iter().map(description).collect();
    Table::Outbox(Box::new(router.bind(relation, &columns).unwrap()))
}

pub(super) fn relation(oid: Oid, shape: usize) -> Vec<u8> {
    let column = |name: &&str| Column {
        name: (*name).to_owned(),
        type_oid: Oid(1043),
        type_modifier: -1,
        in_identity: *name == "id",
    };
    encode(&Message::Relation(Relation {
        oid,
        schema: "public".to_owned(),
        table: if oid == OUTBOX { "outbox" } else { "other" }.to_owned(),
        replica_identity: ReplicaIdentity::Default,
        columns: SHAPES[shape].iter().map(column).collect(),
    }))
}

/// The inserted row of an event.
pub(super) fn insert(shape: usize, number: usize, topic: usize, key: u8) -> Vec<u8> {
    let (id, key, payload) = (id(number), self::key(key), payload(number));
    let value = |name: &&str| match *name {
        "id" => ColumnValue::Text(id.as_bytes()),
        "aggregatetype" => ColumnValue::Text(TYPES[topic].as_bytes()),
        "aggregateid" => ColumnValue::Text(key.as_bytes()),
        "payload" => ColumnValue::Text(payload.as_bytes()),
        _ => ColumnValue::Text(b"Happened"),
    };
    encode(&Message::Insert { relation: OUTBOX, new: SHAPES[shape].iter().map(value).collect() })
}

/// The name of a topic by its number.
pub(super) fn topic_name(number: usize) -> &'static str {
    EVENTS_TOPICS.get(number).copied().unwrap_or(STATE_TOPIC)
}

/// A change that makes no event.
pub(super) fn noise(relation: Oid, deletes: bool) -> Vec<u8> {
    let row = (0..5).map(|_| ColumnValue::Null).collect();
    match deletes {
        true => encode(&Message::Delete { relation, old: OldTuple::Key(row) }),
        false => encode(&Message::Insert { relation, new: row }),
    }
}

/// A logical message that is an event.
pub(super) fn message(end: u64, transactional: bool, number: usize, topic: usize, key: u8) -> Vec<u8> {
    let (id, kind, key, payload) = (id(number), TYPES[topic], self::key(key), payload(number));
    let content =
        format!(r#"{{"id":"{id}","aggregatetype":"{kind}","aggregateid":"{key}","payload":"{payload}"}}"#);
    let content = content.as_bytes();
    let message = LogicalMessage { transactional, lsn: Lsn::new(end), prefix: PREFIX, content };
    encode(&Message::LogicalMessage(message))
}

pub(super) fn id(number: usize) -> String {
    format!("e-{number}")
}

pub(super) fn number_of(id: &[u8]) -> Option<usize> {
    std::str::from_utf8(id).ok()?.strip_prefix("e-")?.parse().ok()
}

pub(super) fn key(key: u8) -> String {
    format!("k{key}")
}

/// What a key's events become: a record alone, or one that a tombstone follows, in its topic or in the other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Becomes {
    Record,
    RecordAndTombstone,
    RecordAndTombstoneElsewhere,
}

pub(super) fn becomes(key: &str) -> Becomes {
    match key {
        "k0" => Becomes::RecordAndTombstone,
        "k3" => Becomes::RecordAndTombstoneElsewhere,
        _ => Becomes::Record,
    }
}

/// The transform of the simulation: the outbox itself never makes several records of one event.
pub(super) fn records_of(record: ProducerRecord<'_>) -> SmallVec<[ProducerRecord<'_>; 1]> {
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

pub(super) fn payload(number: usize) -> String {
    format!("happened {number}")
}
