//! The binding of one table: its key, its columns and its schemas; a change of one of its rows becomes records.

pub(super) mod binding;
mod direct;
pub(super) mod key;
mod labels;
pub(super) mod placeholder;
mod raw_key;
mod remains;
pub(super) mod reselect;
mod routed;
mod values;
mod zero;

use std::borrow::Cow;
use std::sync::Arc;

use super::context::{ChangeContext, SkippedHalves, Snapshot};
use super::envelope::source::Source;
use super::envelope::transaction;
use super::events::Connector;
use super::record::{ChangeRecords, Inconvertible};
use super::row_change::{OldRow, Row, RowChange};
use crate::outbox::{RouteError, check_topic_name};
use connect_data::column::{ColumnCodec, FailureHandling};
use connect_data::converter::{Destination, FieldLabel};
use connect_data::source_record::{Datum, DatumHeader, SourceRecord};
use connect_data::{Schema, Value};
use labels::Labels;
use pg_replication::pgoutput::ColumnValue;
use reselect::Selection;
use routed::{Origin, RoutedTables};

/// The headers of the two halves of a changed key.
const NEW_KEY: &str = "__debezium.newkey";
const OLD_KEY: &str = "__debezium.oldkey";

/// A table with its schemas: its input is changes, its output is records.
#[derive(Debug)]
pub struct ChangeTable {
    pub(super) connector: Arc<Connector>,
    /// The table's name with its schema.
    pub(super) name: String,
    pub(super) topic: String,
    /// The columns that events show, in the table's order.
    pub(super) columns: Vec<BoundColumn>,
    pub(super) key: Option<Key>,
    /// Positions in the row of the columns that identify it, in the key's order; empty if there are none.
    pub(super) identity: Vec<usize>,
    /// The schema of a row before and after the change.
    pub(super) row: Arc<Schema>,
    pub(super) envelope: Arc<Schema>,
    pub(super) source: Source,
    pub(super) notes: Vec<String>,
    /// The topic of events that are written without a tree of their values, see [`ChangeTable::write`];
    /// `None` if that is not possible.
    pub(super) direct_to: Option<String>,
    /// The bindings to the EventRouters among the transforms.
    pub(super) routed: RoutedTables,
    /// The columns whose values are read from the table.
    pub(super) selection: Option<Selection>,
}

/// A table's key.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) schema: Arc<Schema>,
    pub(super) columns: Vec<BoundColumn>,
    /// A field behind the columns that distinguishes the table from other tables with the same topic.
    pub(super) added: Option<AddedField>,
}

/// A field of a key that is no column.
#[derive(Debug)]
pub(super) struct AddedField {
    pub(super) label: FieldLabel,
    pub(super) schema: Arc<Schema>,
    pub(super) content: String,
}

/// A column at its position in the row.
#[derive(Debug)]
pub(super) struct BoundColumn {
    pub(super) index: usize,
    pub(super) name: String,
    /// Its name in the event.
    pub(super) field: String,
    /// The same name, in its serialized form.
    pub(super) label: FieldLabel,
    pub(super) codec: ColumnCodec,
    /// The value that replaces NULL; null if the column may be null.
    pub(super) zero: Value<'static>,
    /// The value that replaces one that the server did not send.
    pub(super) placeholder: Value<'static>,
    /// The values of an enum, as in its schema.
    pub(super) labels: Option<Labels>,
}

/// An event before its conversion: the part that differs from one event to the next. Its values are not
/// decoded yet.
pub(super) struct Event<'r, 'a> {
    pub(super) op: &'static str,
    /// The row that contains the key; `None` for a truncate.
    pub(super) key: Option<Image<'r, 'a>>,
    pub(super) before: Option<Image<'r, 'a>>,
    pub(super) after: Option<Image<'r, 'a>>,
    /// For each half of a changed key, the header with the other key.
    pub(super) header: Option<(&'static str, Value<'a>)>,
    /// True if a record of the same key without a value follows.
    pub(super) has_tombstone: bool,
}

/// A row image of an event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Image<'r, 'a> {
    pub(super) row: Row<'r, 'a>,
    /// The old row, if there is one: it provides the values that an update did not change and the server did
    /// not send.
    pub(super) old: Option<Row<'r, 'a>>,
}

impl<'r, 'a> From<Row<'r, 'a>> for Image<'r, 'a> {
    fn from(row: Row<'r, 'a>) -> Self {
        Self { row, old: None }
    }
}

impl ChangeTable {
    /// Returns the table's name with its schema: `public.orders`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Appends the records of a change, in their order; none if the change is skipped.
    ///
    /// # Errors
    /// When a value cannot be read or converted.
    pub fn add<'a>(
        &'a self,
        change: RowChange<'_, 'a>,
        at: &ChangeContext,
        records: &mut ChangeRecords<'a>,
        into: &mut Destination<'_>,
    ) -> Result<(), RouteError> {
        records.events_of_table = 0;
        let event = Event {
            op: if at.snapshot == Snapshot::False { "c" } else { "r" },
            key: None,
            before: None,
            after: None,
            header: None,
            has_tombstone: false,
        };
        let event = match change {
            RowChange::Insert(new) => Event { key: Some(new.into()), after: Some(new.into()), ..event },
            RowChange::Update(old, new) => return self.update(old, new, at, records, into),
            RowChange::Delete(old) => self.delete(old.columns()),
            RowChange::Truncate => Event { op: "t", ..event },
        };
        self.push(event, at, records, into)
    }

    /// Reports whether a change changes the key. Returns false if a value of the key cannot be read.
    #[must_use]
    pub fn changes_key(&self, change: RowChange<'_, '_>) -> bool {
        let RowChange::Update(Some(old), new) = change else { return false };
        self.is_key_changed(old, new).unwrap_or_default()
    }

    /// Counts the events of a change without making them: a changed key has two.
    ///
    /// # Errors
    /// When a value cannot be read.
    pub fn count(&self, change: RowChange<'_, '_>, skipped: SkippedHalves) -> Result<i64, RouteError> {
        let RowChange::Update(Some(old), new) = change else { return Ok(1) };
        if self.is_skipped(old, new)? {
            return Ok(0);
        }
        if self.is_key_changed(old, new)? {
            return Ok(i64::from(!skipped.delete).saturating_add(i64::from(!skipped.create)));
        }
        Ok(1)
    }

    /// Returns the columns whose value has no form and for which a warning is configured
    /// (`event.converting.failure.handling.mode=warn`). The record contains NULL, or its replacement,
    /// instead.
    pub fn replaced_columns(&self, change: RowChange<'_, '_>) -> impl Iterator<Item = &str> {
        let warns = self.connector.context.columns.failure == FailureHandling::Warn;
        let row = match change {
            RowChange::Insert(row) | RowChange::Update(_, row) => row,
            RowChange::Delete(old) => old.columns(),
            RowChange::Truncate => &[],
        };
        let replaced = move |column: &&BoundColumn| {
            warns && row.get(column.index).is_some_and(|value| column.codec.is_replaced(*value))
        };
        self.columns.iter().filter(replaced).map(|column| column.name.as_str())
    }

    /// Returns notes about unexpected effects, one line each, for example columns that no event shows.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Appends the records of an update. An update of the key is a delete of the old key and a create of the
    /// new one.
    fn update<'a>(
        &'a self,
        old: Option<OldRow<'_, 'a>>,
        new: Row<'_, 'a>,
        at: &ChangeContext,
        records: &mut ChangeRecords<'a>,
        into: &mut Destination<'_>,
    ) -> Result<(), RouteError> {
        let image = Image { row: new, old: old.map(OldRow::columns) };
        let event = Event {
            op: "u",
            key: Some(image),
            before: old.map(|old| old.columns().into()),
            after: Some(image),
            header: None,
            has_tombstone: false,
        };
        let Some(old) = old else { return self.push(event, at, records, into) };
        if self.is_skipped(old, new)? {
            records.skip_unchanged();
            return Ok(());
        }
        if !self.is_key_changed(old, new)? {
            return self.push(event, at, records, into);
        }
        let (was, is) = (self.key_of(old.columns().into())?, self.key_of(image)?);
        if !at.skipped.delete {
            let gone = Event { header: Some((NEW_KEY, is)), ..self.delete(old.columns()) };
            self.push(gone, at, records, into)?;
        }
        if at.skipped.create {
            return Ok(());
        }
        let come = Event { op: "c", before: None, header: Some((OLD_KEY, was)), ..event };
        self.push(come, at, records, into)
    }

    /// Returns the event of a delete, with its tombstone.
    fn delete<'r, 'a>(&self, old: Row<'r, 'a>) -> Event<'r, 'a> {
        Event {
            op: "d",
            key: Some(old.into()),
            before: Some(old.into()),
            after: None,
            header: None,
            has_tombstone: self.connector.options.tombstones,
        }
    }

    /// Reports whether the key differs. In most cases the server sent the same bytes twice, and no value is
    /// decoded.
    fn is_key_changed(&self, old: OldRow<'_, '_>, new: Row<'_, '_>) -> Result<bool, RouteError> {
        let Some(key) = &self.key else { return Ok(false) };
        let (was, is) = (old.columns(), Image { row: new, old: Some(old.columns()) });
        let is_same = key.columns.iter().all(|column| was.get(column.index) == new.get(column.index));
        // In Java the placeholder of unknown bytes has another class than bytes, and so it differs from empty
        // bytes.
        let is_unknown = |column: &BoundColumn| {
            matches!(column.zero, Value::Bytes(_))
                && was.get(column.index) == Some(&ColumnValue::Null)
                && new.get(column.index) != Some(&ColumnValue::Null)
        };
        if key.columns.iter().any(is_unknown) {
            return Ok(true);
        }
        Ok(!is_same && !self.key_of(was.into())?.equals(&self.key_of(is)?))
    }

    /// Reports whether an update changes nothing, and such updates make no events.
    fn is_skipped(&self, old: OldRow<'_, '_>, new: Row<'_, '_>) -> Result<bool, RouteError> {
        if !self.connector.options.skip_unchanged {
            return Ok(false);
        }
        let old = old.columns();
        Ok(self.row_of(old.into())?.equals(&self.row_of(Image { row: new, old: Some(old) })?))
    }

    fn push<'a>(
        &'a self,
        event: Event<'_, 'a>,
        at: &ChangeContext,
        records: &mut ChangeRecords<'a>,
        into: &mut Destination<'_>,
    ) -> Result<(), RouteError> {
        let place = at.xid.zip(at.before).map_or(Value::Null, |(xid, before)| {
            transaction::block(xid, at.lsn, before.plus(records.events, records.events_of_table))
        });
        records.events = records.events.saturating_add(1);
        records.events_of_table = records.events_of_table.saturating_add(1);
        if let Some(topic) = &self.direct_to {
            match self.write(topic, &event, &place, at, records, into) {
                // The conversion by values finds out which of the records fails.
                Err(error) if at.tolerates && !error.awaits_schema() => {}
                done => return done,
            }
        }
        let new = event.after.map(|image| image.row);
        let now_ms = at.now_us.div_euclid(1_000);
        let origin = Origin { op: event.op, new, now_ms, tolerates: at.tolerates };
        let key = event.key.map_or(Ok(Value::Null), |image| self.key_of(image))?;
        let value = self.envelope_of(&event, place, at)?;
        let tombstone =
            event.has_tombstone.then(|| self.source_record(key.clone(), Datum::NULL, event.header.clone()));
        self.convert_or_refuse(self.source_record(key, value, event.header), origin, records, into)?;
        tombstone.map_or(Ok(()), |record| self.convert_or_refuse(record, origin, records, into))
    }

    fn envelope_of<'a>(
        &'a self,
        event: &Event<'_, 'a>,
        place: Value<'a>,
        at: &ChangeContext,
    ) -> Result<Datum<'a>, RouteError> {
        let [before, after] = [event.before, event.after]
            .map(|image| image.map_or(Ok(Value::Null), |image| self.row_of(image)));
        let value = Value::Struct(vec![
            before?,
            after?,
            self.source.value(at),
            place,
            Value::str(event.op),
            Value::Int64(at.now_us.div_euclid(1_000)),
            Value::Int64(at.now_us),
            Value::Int64(at.now_us.saturating_mul(1_000)),
        ]);
        Ok(Datum::new(Arc::clone(&self.envelope), value))
    }

    /// Builds the record of an inserted row, before the transforms.
    pub(super) fn inserted<'a>(
        &'a self,
        row: Row<'_, 'a>,
        at: &ChangeContext,
    ) -> Result<SourceRecord<'a>, RouteError> {
        let image = Some(Image::from(row));
        let event =
            Event { op: "c", key: image, before: None, after: image, header: None, has_tombstone: false };
        let value = self.envelope_of(&event, Value::Null, at)?;
        Ok(self.source_record(self.key_of(row.into())?, value, None))
    }

    /// Applies the transforms and converters to a record. Each record fails separately.
    fn convert_or_refuse<'a>(
        &'a self,
        record: SourceRecord<'a>,
        origin: Origin<'_, 'a>,
        records: &mut ChangeRecords<'a>,
        into: &mut Destination<'_>,
    ) -> Result<(), RouteError> {
        match self.convert(record, origin, records, into) {
            Err(error) if origin.tolerates && !error.awaits_schema() => {
                records.refuse(error);
                Ok(())
            }
            done => done,
        }
    }

    pub(super) fn source_record<'a>(
        &'a self,
        key: Value<'a>,
        value: Datum<'a>,
        header: Option<(&'static str, Value<'a>)>,
    ) -> SourceRecord<'a> {
        SourceRecord {
            topic: Cow::Borrowed(&self.topic),
            partition: None,
            timestamp_ms: None,
            key: if key.is_null() { Datum::NULL } else { self.key_datum(key) },
            value,
            headers: self.headers(header).collect(),
        }
    }

    /// Returns the header of a changed key and the headers of the context.
    fn headers<'a>(
        &'a self,
        changed_key: Option<(&'static str, Value<'a>)>,
    ) -> impl Iterator<Item = DatumHeader<'a>> {
        let changed_key = changed_key
            .map(|(name, key)| DatumHeader { name: Cow::Borrowed(name), datum: self.key_datum(key) });
        changed_key.into_iter().chain(self.connector.context_headers())
    }

    pub(super) fn key_datum<'a>(&self, value: Value<'a>) -> Datum<'a> {
        match &self.key {
            Some(key) => Datum::new(Arc::clone(&key.schema), value),
            None => Datum::NULL,
        }
    }

    fn convert<'a>(
        &'a self,
        record: SourceRecord<'a>,
        origin: Origin<'_, 'a>,
        records: &mut ChangeRecords<'a>,
        into: &mut Destination<'_>,
    ) -> Result<(), RouteError> {
        let Some(record) = self.transformed(record, origin)? else { return Ok(()) };
        if record.topic != self.topic {
            check_topic_name(&record.topic)
                .map_err(|source| RouteError::MovedTopic { table: self.name.clone(), source })?;
        }
        let pushed = records.push(record, &self.connector.converters, into, origin.now_ms);
        pushed.map_err(|error| self.inconvertible(error))
    }

    pub(super) fn inconvertible(&self, Inconvertible { option, source }: Inconvertible) -> RouteError {
        RouteError::Convert { table: self.name.clone(), column: "*".to_owned(), option, source }
    }
}
