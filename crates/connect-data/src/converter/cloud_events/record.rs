//! Structs of a change event as a cloud event reads them.

use crate::converter::ConvertError;
use crate::java::date::{calendar_date, clock};
use crate::{Field, Kind, Schema, Value};

const TIME: &str = "ts_ms";
const MILLIS_PER_DAY: i64 = 86_400_000;

/// A struct with its values.
#[derive(Clone, Copy)]
pub(super) struct Record<'r, 'v> {
    pub(super) fields: &'r [Field],
    values: &'r [Value<'v>],
}

impl<'r, 'v> Record<'r, 'v> {
    pub(super) fn of(schema: &'r Schema, value: &'r Value<'v>) -> Option<Self> {
        match (&schema.kind, value) {
            (Kind::Struct(fields), Value::Struct(values)) => Some(Self { fields, values }),
            _ => None,
        }
    }

    /// Returns a field with its value. As in `Struct.get`, the value of a null is the field's default.
    pub(super) fn field(self, name: &str) -> Result<(&'r Field, &'r Value<'v>), ConvertError> {
        let found = self.all().find(|(field, _)| field.name == name);
        found.ok_or_else(|| ConvertError::NoCloudEvent(name.to_owned()))
    }

    /// Returns all fields with their values.
    pub(super) fn all(self) -> impl Iterator<Item = (&'r Field, &'r Value<'v>)> {
        self.fields.iter().zip(self.values).map(|(field, value)| {
            let default = field.schema.default.as_ref().filter(|_| value.is_null());
            (field, default.unwrap_or(value))
        })
    }

    /// Returns the schema and the value of a field.
    pub(super) fn get(self, name: &str) -> Result<(&'r Schema, &'r Value<'v>), ConvertError> {
        self.field(name).map(|(field, value)| (field.schema.as_ref(), value))
    }

    /// Returns the struct in a field.
    pub(super) fn record(self, name: &str) -> Result<Self, ConvertError> {
        let (schema, value) = self.get(name)?;
        Self::of(schema, value).ok_or_else(|| ConvertError::NoCloudEvent(name.to_owned()))
    }

    /// Returns the text to which Java converts the value of a field.
    pub(super) fn text(self, name: &str) -> Result<String, ConvertError> {
        match self.get(name)?.1 {
            Value::Null => Ok("null".to_owned()),
            Value::Str(text) => Ok(text.to_string()),
            Value::Int64(number) => Ok(number.to_string()),
            _ => Err(ConvertError::NoCloudEvent(name.to_owned())),
        }
    }

    /// Returns the time of the change in ISO 8601, in UTC with milliseconds.
    pub(super) fn time(self) -> Result<String, ConvertError> {
        let Value::Int64(millis) = *self.get(TIME)?.1 else {
            return Err(ConvertError::NoCloudEvent(TIME.to_owned()));
        };
        let (year, month, day) = calendar_date(millis.div_euclid(MILLIS_PER_DAY));
        let [hour, minute, second, milli] = clock(millis);
        Ok(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z"))
    }
}
