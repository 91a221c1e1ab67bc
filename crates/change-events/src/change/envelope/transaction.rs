//! Transaction metadata: a record at the begin and at the end of each transaction, and each event's position
//! in it.

use std::borrow::Cow;
use std::sync::Arc;

use crate::change::events::Connector;
use crate::change::record::{ChangeRecords, Inconvertible};
use crate::outbox::RouteError;
use connect_data::converter::Destination;
use connect_data::java::hash_map::{Made, in_order};
use connect_data::source_record::{Datum, SourceRecord};
use connect_data::{Field, Kind, OptionReader, Schema, Value};
use pg_replication::pgoutput::Begin;
use pg_replication::wal::{Lsn, Xid};

/// The topic of transaction metadata (`provide.transaction.metadata`).
#[derive(Debug)]
pub(in crate::change) struct TransactionTopic {
    name: String,
    key: Arc<Schema>,
    value: Arc<Schema>,
}

/// The events that the open transaction has sent.
#[derive(Debug, Default)]
pub struct Tally {
    events: i64,
    /// The number of events of each table, in the order of their first events.
    tables: Vec<(String, i64)>,
}

/// The number of earlier events of the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Before {
    pub(in crate::change) events: i64,
    /// The number of earlier events of the same table.
    pub(super) of_table: i64,
}

/// The begin or the end of a transaction.
#[derive(Debug, Clone, Copy)]
pub enum End<'t> {
    /// `BEGIN`
    Begin,
    /// `END`, with the events that were sent in between.
    End(&'t Tally),
}

impl TransactionTopic {
    /// Reads the options; returns `None` if transaction metadata is disabled. `prefix` is the prefix of the
    /// topic's name.
    pub(in crate::change) fn read(options: &mut OptionReader<'_>, prefix: &str) -> Option<Self> {
        let provided = options.boolean("provide.transaction.metadata", false);
        let name = options.filled("topic.transaction").unwrap_or_else(|| "transaction".to_owned());
        provided.then(|| Self {
            name: format!("{prefix}{name}"),
            key: Arc::new(key_schema()),
            value: Arc::new(value_schema()),
        })
    }

    /// Returns the topic's name.
    pub(in crate::change) fn name(&self) -> &str {
        &self.name
    }
}

impl Before {
    /// Returns the numbers after further events, of which `of_table` are of the same table.
    pub(in crate::change) const fn plus(self, events: i64, of_table: i64) -> Self {
        Self { events: self.events.saturating_add(events), of_table: self.of_table.saturating_add(of_table) }
    }
}

impl Tally {
    /// Returns the numbers of events before the next event of a table.
    pub fn before(&self, table: &str) -> Before {
        let of_table = self.tables.iter().find(|(name, _)| name == table).map_or(0, |(_, count)| *count);
        Before { events: self.events, of_table }
    }

    /// Counts events of a table.
    pub fn add(&mut self, table: &str, events: i64) {
        if events == 0 {
            return;
        }
        self.events = self.events.saturating_add(events);
        match self.tables.iter_mut().find(|(name, _)| name == table) {
            Some((_, count)) => *count = count.saturating_add(events),
            None => self.tables.push((table.to_owned(), events)),
        }
    }

    fn value(&self) -> Value<'static> {
        let collection = |(name, count): &(String, i64)| {
            Value::Struct(vec![Value::Str(Cow::Owned(name.clone())), Value::Int64(*count)])
        };
        // Debezium stores them in a hash map, whose order is reproduced here.
        let tables = in_order(self.tables.iter().collect(), Made::Empty, |(name, _)| name);
        Value::Array(tables.into_iter().map(collection).collect())
    }
}

impl Connector {
    /// Builds the record of one end of a transaction. Returns `None` if transaction metadata is disabled or a
    /// transform drops it.
    pub(in crate::change) fn transaction_record(
        &self,
        end: End<'_>,
        begin: &Begin,
        lsn: Lsn,
        now_ms: i64,
        into: &mut Destination<'_>,
    ) -> Result<Option<ChangeRecords<'_>>, RouteError> {
        let Some(topic) = &self.transactions else { return Ok(None) };
        let id = || Value::Str(Cow::Owned(id(begin.xid, lsn)));
        let (status, count, tables) = match end {
            End::Begin => ("BEGIN", Value::Null, Value::Null),
            End::End(tally) => ("END", Value::Int64(tally.events), tally.value()),
        };
        let committed_ms = begin.commit_time.unix_us().div_euclid(1_000);
        let value = vec![Value::str(status), id(), count, tables, Value::Int64(committed_ms)];
        let record = SourceRecord {
            topic: Cow::Borrowed(&topic.name),
            partition: None,
            timestamp_ms: None,
            key: Datum::new(Arc::clone(&topic.key), Value::Struct(vec![id()])),
            value: Datum::new(Arc::clone(&topic.value), Value::Struct(value)),
            headers: Vec::new(),
        };
        let mut records = ChangeRecords::default();
        let table = || topic.name.clone();
        let transformed = self.chain.apply(record);
        let transformed = transformed.map_err(|source| RouteError::Transform { table: table(), source })?;
        let Some(record) = transformed else { return Ok(None) };
        let pushed = records.push(record, &self.converters, into, now_ms);
        pushed.map_err(|Inconvertible { option, source }| RouteError::Convert {
            table: table(),
            column: "*".to_owned(),
            option,
            source,
        })?;
        Ok(Some(records))
    }
}

/// Returns a transaction's id as it is in an event at `lsn`.
pub(in crate::change) fn id(xid: Xid, lsn: Lsn) -> String {
    format!("{}:{}", xid.0, lsn.get())
}

/// Returns the block `transaction` of the event that follows `before`.
pub(in crate::change) fn block(xid: Xid, lsn: Lsn, before: Before) -> Value<'static> {
    Value::Struct(vec![
        Value::Str(Cow::Owned(id(xid, lsn))),
        Value::Int64(before.events.saturating_add(1)),
        Value::Int64(before.of_table.saturating_add(1)),
    ])
}

/// Returns the schema of the block.
pub(in crate::change) fn block_schema() -> Schema {
    let fields = vec![
        required("id", Kind::String),
        required("total_order", Kind::Int64),
        required("data_collection_order", Kind::Int64),
    ];
    Schema::named(Kind::Struct(fields), "event.block").optional(true)
}

fn key_schema() -> Schema {
    let fields = vec![required("id", Kind::String)];
    Schema::named(Kind::Struct(fields), "io.debezium.connector.common.TransactionMetadataKey")
}

fn value_schema() -> Schema {
    let collection = vec![required("data_collection", Kind::String), required("event_count", Kind::Int64)];
    let collection = Schema::named(Kind::Struct(collection), "event.collection").optional(true);
    let fields = vec![
        required("status", Kind::String),
        required("id", Kind::String),
        Field::new("event_count", Arc::new(Schema::new(Kind::Int64).optional(true))),
        Field::new(
            "data_collections",
            Arc::new(Schema::new(Kind::Array(Arc::new(collection))).optional(true)),
        ),
        required("ts_ms", Kind::Int64),
    ];
    Schema::named(Kind::Struct(fields), "io.debezium.connector.common.TransactionMetadataValue")
}

fn required(name: &str, kind: Kind) -> Field {
    Field::new(name, Arc::new(Schema::new(kind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_by_table() {
        let mut tally = Tally::default();
        tally.add("a", 2);
        tally.add("b", 1);
        tally.add("a", 0);
        assert_eq!(tally.before("a"), Before { events: 3, of_table: 2 });
        assert_eq!(tally.before("c"), Before { events: 3, of_table: 0 });
    }
}
