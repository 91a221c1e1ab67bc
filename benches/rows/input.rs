//! A transaction of outbox rows: as values, and as pgoutput sends it.

use bytes::BufMut;
use change_events::outbox::{EventContext, EventRouter, EventRouterOptions, OutboxTable};
use connect_data::NameAdjustment;
use connect_data::column::{ColumnDescription, ColumnOptions, ColumnRules, TypeKind};
use connect_data::converter::Converters;
use pg_replication::pgoutput::{Column, ColumnValue, Relation, ReplicaIdentity, Tuple};
use pg_replication::wal::{Lsn, Oid};

/// Rows of the transaction.
pub(crate) const ROWS: u32 = 10;
/// Position of the commit.
pub(crate) const COMMIT_LSN: Lsn = Lsn::new(0x0100_0000);
/// Behind its commit record.
pub(crate) const END_LSN: Lsn = Lsn::new(0x0100_0030);
pub(crate) const XID: u32 = 4711;

const RELATION: Oid = Oid(16_384);
/// Debezium's columns, with their types and their object ids.
const COLUMNS: [(&str, &str, u32); 5] = [
    ("id", "uuid", 2950),
    ("aggregatetype", "varchar", 1043),
    ("aggregateid", "varchar", 1043),
    ("type", "varchar", 1043),
    ("payload", "jsonb", 3802),
];

/// A row: a value for each column.
pub(crate) type Row = [String; 5];

/// Returns the rows. The payload is like an order, of about 300 bytes.
pub(crate) fn rows() -> Vec<Row> {
    (0..ROWS).map(row).collect()
}

fn row(n: u32) -> Row {
    let payload = format!(
        r#"{{"n": {n}, "paid": true, "total": 12{n}.50, "lines": [{{"sku": "tea-{n}", "price": 7.25, "quantity": 2}}, {{"sku": "honey", "price": 5.50, "quantity": 1}}], "order": "o-{n}", "customer": {{"id": 20{n}, "mail": "somebody@example.com", "name": "Somebody {n}"}}, "placed_at": "2026-01-02T03:04:05.678901Z", "comment": null, "address": "1 Some Street, Somewhere"}}"#
    );
    let id = format!("00000000-0000-4000-8000-{n:012}");
    [id, "order".to_owned(), format!("o-{n}"), "OrderCreated".to_owned(), payload]
}

/// Returns a row as it is decoded.
pub(crate) fn tuple(row: &Row) -> Tuple<'_> {
    row.iter().map(|text| ColumnValue::Text(text.as_bytes())).collect()
}

/// Returns the table, bound to a router with these options; keys of the router's own begin with nothing.
pub(crate) fn table(options: &[(&str, &str)]) -> OutboxTable {
    let lookup =
        |key: &str| options.iter().find(|(option, _)| *option == key).map(|(_, value)| (*value).to_owned());
    let context = EventContext {
        option_prefix: String::new(),
        topic_prefix: "srv".to_owned(),
        topic_delimiter: ".".to_owned(),
        naming: Default::default(),
        run_id: Some("01900000-0000-7000-8000-000000000000".to_owned()),
        columns: ColumnOptions::default(),
        condition: None,
        rules: ColumnRules::default(),
        schema_names: NameAdjustment::None,
        field_names: NameAdjustment::None,
    };
    let router = EventRouterOptions::parse(&lookup).unwrap();
    let converters = Converters::parse(&lookup).unwrap();
    let columns: Vec<_> = COLUMNS.iter().map(description).collect();
    EventRouter::new(router, converters, context).unwrap().bind(&relation(), &columns).unwrap()
}

fn description(&(name, kind, oid): &(&str, &str, u32)) -> ColumnDescription {
    ColumnDescription {
        name: name.to_owned(),
        type_oid: Oid(oid),
        type_modifier: -1,
        kind: TypeKind::base(kind),
        not_null: name != "payload",
        default: None,
        key_position: None,
    }
}

fn relation() -> Relation {
    let column = |&(name, _, oid): &(&str, &str, u32)| Column {
        name: name.to_owned(),
        type_oid: Oid(oid),
        type_modifier: -1,
        in_identity: name == "id",
    };
    Relation {
        oid: RELATION,
        schema: "public".to_owned(),
        table: "outbox".to_owned(),
        replica_identity: ReplicaIdentity::Default,
        columns: COLUMNS.iter().map(column).collect(),
    }
}

/// Returns the transaction's messages, as pgoutput writes them: `Begin`, the inserts, `Commit`.
pub(crate) fn messages() -> Vec<Vec<u8>> {
    let mut begin = vec![b'B'];
    begin.put_u64(COMMIT_LSN.get());
    begin.put_i64(0);
    begin.put_u32(XID);
    let mut commit = vec![b'C', 0];
    commit.put_u64(COMMIT_LSN.get());
    commit.put_u64(END_LSN.get());
    commit.put_i64(0);
    let inserts = rows().iter().map(insert).collect();
    [vec![begin], inserts, vec![commit]].concat()
}

fn insert(row: &Row) -> Vec<u8> {
    let mut out = vec![b'I'];
    out.put_u32(RELATION.0);
    out.put_u8(b'N');
    out.put_u16(u16::try_from(row.len()).unwrap());
    for text in row {
        out.put_u8(b't');
        out.put_u32(u32::try_from(text.len()).unwrap());
        out.put_slice(text.as_bytes());
    }
    out
}

/// Returns the messages as they come over the wire: each in `XLogData` in `CopyData`.
pub(crate) fn frames() -> Vec<u8> {
    let mut out = Vec::new();
    for message in messages() {
        let length = 4 + 25 + message.len();
        out.put_u8(b'd');
        out.put_u32(u32::try_from(length).unwrap());
        out.put_u8(b'w');
        out.put_u64(COMMIT_LSN.get());
        out.put_u64(COMMIT_LSN.get());
        out.put_i64(0);
        out.put_slice(&message);
    }
    out
}
