//! The block `source` (`io.debezium.connector.postgresql.PostgresSourceInfoStructMaker`).

use std::sync::Arc;

use smallvec::SmallVec;

use crate::change::context::{ChangeContext, Snapshot};
use connect_data::{Field, Kind, Schema, Value};
use pg_replication::wal::Lsn;

/// The number of fields of the block.
pub(super) const FIELDS: usize = 16;

/// Length of two numbers of 20 digits and the characters around them.
const SEQUENCE_BYTES: usize = 48;

/// The constant part of the block of a table's rows.
#[derive(Debug)]
pub(in crate::change) struct Source {
    pub(in crate::change) version: String,
    pub(in crate::change) name: String,
    pub(in crate::change) database: String,
    pub(in crate::change) schema: String,
    pub(in crate::change) table: String,
}

impl Source {
    pub(in crate::change) fn value(&self, at: &ChangeContext) -> Value<'_> {
        let sequence = Sequence::of(at);
        Value::Struct(self.values(at, sequence.text()).map(Value::into_owned).into())
    }

    /// Returns the block's values, with the text of [`Sequence`].
    pub(in crate::change) fn values<'a>(
        &'a self,
        at: &'a ChangeContext,
        sequence: &'a str,
    ) -> [Value<'a>; FIELDS] {
        let committed_us = at.commit_time.unix_us();
        let origin = at.origin.as_deref();
        let lsn = |lsn: Lsn| i64::try_from(lsn.get()).map_or(Value::Null, Value::Int64);
        [
            Value::str(&self.version),
            Value::str("postgresql"),
            Value::str(&self.name),
            Value::Int64(committed_us.div_euclid(1_000)),
            at.snapshot.word().map_or(Value::Null, Value::str),
            Value::str(&self.database),
            Value::str(sequence),
            Value::Int64(committed_us),
            Value::Int64(committed_us.saturating_mul(1_000)),
            Value::str(&self.schema),
            Value::str(&self.table),
            at.xid.map_or(Value::Null, |xid| Value::Int64(i64::from(xid.0))),
            if at.snapshot == Snapshot::Incremental { Value::Null } else { lsn(at.lsn) },
            at.xmin.map_or(Value::Null, |xmin| Value::Int64(i64::from(xmin.0))),
            origin.map_or(Value::Null, |origin| Value::str(&origin.name)),
            // A session may set any origin LSN, and Java has no unsigned numbers.
            origin.map_or(Value::Null, |origin| Value::Int64(origin.lsn.get().cast_signed())),
        ]
    }
}

/// The end of the last commit and the position of the row, as Debezium writes them: `["1","2"]`.
#[derive(Debug)]
pub(in crate::change) struct Sequence(SmallVec<[u8; SEQUENCE_BYTES]>);

impl Sequence {
    pub(in crate::change) fn of(at: &ChangeContext) -> Self {
        let mut text = SmallVec::new();
        match at.last_commit {
            Some(commit) => {
                text.extend_from_slice(b"[\"");
                text.extend_from_slice(itoa::Buffer::new().format(commit.get()).as_bytes());
                text.extend_from_slice(b"\",\"");
            }
            None => text.extend_from_slice(b"[null,\""),
        }
        text.extend_from_slice(itoa::Buffer::new().format(at.lsn.get()).as_bytes());
        text.extend_from_slice(b"\"]");
        Self(text)
    }

    pub(in crate::change) fn text(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// Returns the schema of the block.
pub(in crate::change) fn schema() -> Schema {
    let required = |name: &str, kind| Field::new(name, Arc::new(Schema::new(kind)));
    let optional = |name: &str, kind| Field::new(name, Arc::new(Schema::new(kind).optional(true)));
    let snapshot = Schema {
        default: Some(Value::str("false")),
        ..Schema::named(Kind::String, "io.debezium.data.Enum").optional(true).with_parameter(
            "allowed",
            "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental",
        )
    };
    let fields = vec![
        required("version", Kind::String),
        required("connector", Kind::String),
        required("name", Kind::String),
        required("ts_ms", Kind::Int64),
        Field::new("snapshot", Arc::new(snapshot)),
        required("db", Kind::String),
        optional("sequence", Kind::String),
        optional("ts_us", Kind::Int64),
        optional("ts_ns", Kind::Int64),
        required("schema", Kind::String),
        required("table", Kind::String),
        optional("txId", Kind::Int64),
        optional("lsn", Kind::Int64),
        optional("xmin", Kind::Int64),
        optional("origin", Kind::String),
        optional("origin_lsn", Kind::Int64),
    ];
    Schema::named(Kind::Struct(fields), "io.debezium.connector.postgresql.Source")
}
