use std::sync::Arc;

use super::error::Problem;
use crate::connect::source_record::{Datum, SourceRecord};
use crate::connect::{Schema, Value};

/// What a transform works on: its class ends in `$Key` or `$Value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The record's key.
    Key,
    /// The record's value.
    Value,
}

/// A struct that was taken out of a record, to be put back when it is done.
pub(super) struct Taken<'a> {
    /// Its schema.
    pub(super) schema: Arc<Schema>,
    /// The fields' values.
    pub(super) values: Vec<Value<'a>>,
}

impl Side {
    /// This side of a record.
    pub(super) const fn of<'r, 'a>(self, record: &'r mut SourceRecord<'a>) -> &'r mut Datum<'a> {
        match self {
            Self::Key => &mut record.key,
            Self::Value => &mut record.value,
        }
    }

    /// The same, to be read.
    pub(super) const fn datum<'r, 'a>(self, record: &'r SourceRecord<'a>) -> &'r Datum<'a> {
        match self {
            Self::Key => &record.key,
            Self::Value => &record.value,
        }
    }

    /// Whether there is nothing on this side.
    pub(super) const fn is_null(self, record: &SourceRecord<'_>) -> bool {
        self.datum(record).value.is_null()
    }

    /// Takes the struct out of this side.
    pub(super) fn take<'a>(self, record: &mut SourceRecord<'a>) -> Result<Taken<'a>, Problem> {
        let datum = self.of(record);
        match (datum.schema.take(), std::mem::replace(&mut datum.value, Value::Null)) {
            (Some(schema), Value::Struct(values)) => Ok(Taken { schema, values }),
            _ => Err(self.not_a_struct()),
        }
    }

    /// Takes the struct out of this side; none when it is null.
    pub(super) fn take_unless_null<'a>(
        self,
        record: &mut SourceRecord<'a>,
    ) -> Result<Option<Taken<'a>>, Problem> {
        if self.of(record).value.is_null() {
            return Ok(None);
        }
        self.take(record).map(Some)
    }

    /// This side has no fields.
    pub(super) const fn not_a_struct(self) -> Problem {
        Problem::NotAStruct(match self {
            Self::Key => "key",
            Self::Value => "value",
        })
    }
}
