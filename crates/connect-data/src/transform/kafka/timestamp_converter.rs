//! Transform `TimestampConverter`.

use std::sync::Arc;

use crate::java::date_format::DateFormat;
use crate::source_record::{Datum, SourceRecord};
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::fields::schemas::PerSchema;
use crate::transform::fields::side::Side;
use crate::transform::fields::structs;
use crate::transform::settings::Settings;
use crate::{Field, Kind, Refused, Schema, Value};

const DATE: &str = "org.apache.kafka.connect.data.Date";
const TIME: &str = "org.apache.kafka.connect.data.Time";
const TIMESTAMP: &str = "org.apache.kafka.connect.data.Timestamp";
const MILLIS_PER_DAY: i64 = 86_400_000;

/// Transform `TimestampConverter`, which changes the representation of a timestamp.
#[derive(Debug)]
pub(in crate::transform) struct TimestampConverter {
    side: Side,
    /// Field of the timestamp; without one, the whole is the timestamp.
    field: Option<String>,
    target: Target,
    format: Option<DateFormat>,
    precision: Precision,
    replace_null_with_default: bool,
    plans: PerSchema<Plan>,
}

/// `target.type`
#[derive(Debug, Clone, Copy)]
enum Target {
    Text,
    Unix,
    Date,
    Time,
    Timestamp,
}

/// `unix.precision` (milliseconds)
#[derive(Debug, Clone, Copy)]
enum Precision {
    Seconds,
    Milliseconds,
    Microseconds,
    Nanoseconds,
}

/// New schema, and the position of the timestamp.
#[derive(Debug)]
struct Plan {
    schema: Arc<Schema>,
    position: Option<usize>,
}

impl TimestampConverter {
    pub(in crate::transform) fn read(side: Side, settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        let replace_null_with_default = settings.boolean("replace.null.with.default", true);
        let precision = settings.one_of("unix.precision", &Precision::ALL, Precision::Milliseconds);
        let target = settings.required_one_of("target.type", &Target::ALL);
        let format = format(settings);
        let (target, format) = (target?, format?);
        if matches!(target, Target::Text) && format.is_none() {
            return Err(settings.refuse("format", "target.type=string needs it"));
        }
        let (field, plans) = (settings.text("field"), PerSchema::default());
        Ok(Self { side, field, target, format, precision, replace_null_with_default, plans })
    }

    fn plan(&self, schema: &Schema) -> Result<Plan, Problem> {
        let Some(name) = &self.field else {
            return Ok(Plan { schema: Arc::new(self.target.schema(schema.optional)), position: None });
        };
        if !matches!(schema.kind, Kind::Struct(_)) {
            return Err(self.side.not_a_struct());
        }
        let converted = |field: &Field| match field.name == *name {
            true => Field::new(name.clone(), Arc::new(self.target.schema(field.schema.optional))),
            false => field.clone(),
        };
        let fields = structs::fields(schema).iter().map(converted).collect();
        let new = structs::struct_with(schema, fields)?.optional(schema.optional);
        Ok(Plan { schema: Arc::new(new), position: structs::position(schema, name) })
    }

    /// Converts a value. Its schema must be one of times even if the value is null.
    fn convert<'a>(&self, schema: &Schema, value: Value<'a>) -> Result<Value<'a>, Problem> {
        if !is_time(schema) {
            return Err(self.unsupported(schema));
        }
        if value.is_null() {
            return Ok(value);
        }
        let millis = self.millis(schema, &value).ok_or_else(|| self.unreadable(schema, &value))?;
        Ok(match self.target {
            Target::Text => {
                let format = self.format.as_ref().ok_or(Problem::Unreadable("a timestamp"))?;
                Value::Str(format.format(millis).into())
            }
            Target::Unix => Value::Int64(self.precision.of_millis(millis)),
            Target::Date => Value::Date(millis.div_euclid(MILLIS_PER_DAY).saturating_mul(MILLIS_PER_DAY)),
            Target::Time => Value::Date(millis.rem_euclid(MILLIS_PER_DAY)),
            Target::Timestamp => Value::Date(millis),
        })
    }

    /// Returns the time of a value by its schema, in milliseconds since 1970.
    fn millis(&self, schema: &Schema, value: &Value<'_>) -> Option<i64> {
        match (value, &schema.kind) {
            (Value::Date(millis), _) => Some(*millis),
            (Value::Str(text), Kind::String) => self.format.as_ref()?.parse(text),
            (Value::Int64(unix), Kind::Int64) => Some(self.precision.to_millis(*unix)),
            _ => None,
        }
    }

    fn unreadable(&self, schema: &Schema, value: &Value<'_>) -> Problem {
        match value {
            Value::Str(_) => Problem::Unreadable("a timestamp of this format"),
            _ => self.unsupported(schema),
        }
    }

    fn unsupported(&self, schema: &Schema) -> Problem {
        Problem::UnsupportedField {
            field: self.field.clone().unwrap_or_default(),
            schema: schema.kind.to_string(),
            transform: "TimestampConverter",
        }
    }
}

/// Reports whether values of this schema are read as times: Connect's own types, texts and 64-bit numbers.
fn is_time(schema: &Schema) -> bool {
    matches!(schema.name(), Some(DATE | TIME | TIMESTAMP))
        || matches!(schema.kind, Kind::String | Kind::Int64)
}

fn format(settings: &mut Settings<'_, '_>) -> Result<Option<DateFormat>, Refused> {
    let Some(pattern) = settings.text("format").filter(|pattern| !pattern.trim().is_empty()) else {
        return Ok(None);
    };
    let compiled = DateFormat::compile(&pattern);
    compiled.map(Some).ok_or_else(|| settings.refuse("format", crate::transform::UNKNOWN_FORMAT))
}

impl Target {
    const ALL: [(&'static str, Self); 5] = [
        ("string", Self::Text),
        ("unix", Self::Unix),
        ("Date", Self::Date),
        ("Time", Self::Time),
        ("Timestamp", Self::Timestamp),
    ];

    fn schema(self, optional: bool) -> Schema {
        match self {
            Self::Text => Schema::new(Kind::String),
            Self::Unix => Schema::new(Kind::Int64),
            Self::Date => Schema::named(Kind::Int32, DATE),
            Self::Time => Schema::named(Kind::Int32, TIME),
            Self::Timestamp => Schema::named(Kind::Int64, TIMESTAMP),
        }
        .optional(optional)
    }
}

impl Precision {
    const ALL: [(&'static str, Self); 4] = [
        ("seconds", Self::Seconds),
        ("milliseconds", Self::Milliseconds),
        ("microseconds", Self::Microseconds),
        ("nanoseconds", Self::Nanoseconds),
    ];

    const fn to_millis(self, unix: i64) -> i64 {
        match self {
            Self::Seconds => unix.saturating_mul(1000),
            Self::Milliseconds => unix,
            Self::Microseconds => unix / 1000,
            Self::Nanoseconds => unix / 1_000_000,
        }
    }

    const fn of_millis(self, millis: i64) -> i64 {
        match self {
            Self::Seconds => millis / 1000,
            Self::Milliseconds => millis,
            Self::Microseconds => millis.saturating_mul(1000),
            Self::Nanoseconds => millis.saturating_mul(1_000_000),
        }
    }
}

impl Transform for TimestampConverter {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        let datum = self.side.of(&mut record);
        let Some(schema) = datum.schema.clone() else {
            return if datum.value.is_null() { Ok(Some(record)) } else { Err(Problem::NoSchema) };
        };
        let plan = self.plans.get(&schema, |schema| self.plan(schema))?;
        datum.schema = Some(Arc::clone(&plan.schema));
        let value = std::mem::replace(&mut datum.value, Value::Null);
        if self.field.is_none() {
            datum.value = self.convert(&schema, value)?;
            return Ok(Some(record));
        }
        let mut values = match value {
            Value::Struct(values) => values,
            Value::Null => return Ok(Some(record)),
            _ => return Err(self.side.not_a_struct()),
        };
        if self.replace_null_with_default {
            structs::fill_defaults(&schema, &mut values);
        }
        let found = plan.position.and_then(|position| {
            Some((values.get_mut(position)?, &structs::fields(&schema).get(position)?.schema))
        });
        if let Some((value, schema)) = found {
            *value = self.convert(schema, std::mem::replace(value, Value::Null))?;
        }
        *datum = Datum::new(Arc::clone(&plan.schema), Value::Struct(values));
        Ok(Some(record))
    }
}
