//! Keys and values as transforms change them.

use std::sync::Arc;

use crate::source_record::{Datum, SourceRecord};
use crate::transform::error::Problem;
use crate::{Schema, Value};

/// Side of a record that a transform changes: its class ends in `$Key` or `$Value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::transform) enum Side {
    /// Key of the record.
    Key,
    /// Value of the record.
    Value,
}

/// Struct that was taken out of a record. The transform must put it back.
pub(in crate::transform) struct Taken<'a> {
    /// Schema of the struct.
    pub(in crate::transform) schema: Arc<Schema>,
    /// Values of the fields.
    pub(in crate::transform) values: Vec<Value<'a>>,
}

impl Side {
    /// Returns this side of a record.
    pub(in crate::transform) const fn of<'r, 'a>(
        self,
        record: &'r mut SourceRecord<'a>,
    ) -> &'r mut Datum<'a> {
        match self {
            Self::Key => &mut record.key,
            Self::Value => &mut record.value,
        }
    }

    /// Returns this side of a record for reading.
    pub(in crate::transform) const fn datum<'r, 'a>(self, record: &'r SourceRecord<'a>) -> &'r Datum<'a> {
        match self {
            Self::Key => &record.key,
            Self::Value => &record.value,
        }
    }

    /// Reports whether this side is null.
    pub(in crate::transform) const fn is_null(self, record: &SourceRecord<'_>) -> bool {
        self.datum(record).value.is_null()
    }

    /// Takes the struct out of this side; fails when there is none.
    pub(in crate::transform) fn take<'a>(self, record: &mut SourceRecord<'a>) -> Result<Taken<'a>, Problem> {
        let datum = self.of(record);
        match (datum.schema.take(), std::mem::replace(&mut datum.value, Value::Null)) {
            (Some(schema), Value::Struct(values)) => Ok(Taken { schema, values }),
            _ => Err(self.not_a_struct()),
        }
    }

    /// Takes the struct out of this side; returns none when it is null.
    pub(in crate::transform) fn take_unless_null<'a>(
        self,
        record: &mut SourceRecord<'a>,
    ) -> Result<Option<Taken<'a>>, Problem> {
        if self.of(record).value.is_null() {
            return Ok(None);
        }
        self.take(record).map(Some)
    }

    /// Returns the error for a side without fields.
    pub(in crate::transform) const fn not_a_struct(self) -> Problem {
        Problem::NotAStruct(match self {
            Self::Key => "key",
            Self::Value => "value",
        })
    }
}
