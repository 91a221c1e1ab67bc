//! Transform `Cast`.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::java::numbers;
use crate::source_record::{Datum, SourceRecord};
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::fields::schemas::PerSchema;
use crate::transform::fields::side::Side;
use crate::transform::fields::structs;
use crate::transform::settings::Settings;
use crate::{Field, Kind, Refused, Schema, Value, java};

const DATE: &str = "org.apache.kafka.connect.data.Date";
const MILLIS_PER_DAY: i64 = 86_400_000;

/// Transform `Cast`, which converts fields, or the whole, to another type.
#[derive(Debug)]
pub(in crate::transform) struct Cast {
    side: Side,
    spec: Spec,
    replace_null_with_default: bool,
    plans: PerSchema<Plan>,
}

#[derive(Debug)]
enum Spec {
    Whole(Kind),
    Fields(Vec<(String, Kind)>),
}

/// New schema, and the target type of each field; none for a field that is not converted.
#[derive(Debug)]
struct Plan {
    schema: Arc<Schema>,
    targets: Vec<Option<Kind>>,
}

impl Cast {
    pub(in crate::transform) fn read(side: Side, settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        let replace_null_with_default = settings.boolean("replace.null.with.default", true);
        let parts = settings.required_list("spec")?;
        let Some(spec) = Spec::parse(&parts) else {
            let reason = "it must be one type, or a list such as id:int64,name:string, of int8, int16, int32, int64, \
                          float32, float64, boolean and string";
            return Err(settings.refuse("spec", reason));
        };
        Ok(Self { side, spec, replace_null_with_default, plans: PerSchema::default() })
    }

    fn plan(&self, schema: &Schema) -> Result<Plan, Problem> {
        let casts = match &self.spec {
            Spec::Whole(kind) => {
                let whole =
                    Self::cast_schema(schema, kind, structs::with_basics_of(schema, kind.clone()), "")?;
                return Ok(Plan { schema: Arc::new(whole), targets: Vec::new() });
            }
            Spec::Fields(casts) => casts,
        };
        let (mut fields, mut targets) = (Vec::new(), Vec::new());
        for field in structs::fields(schema) {
            let target = casts.iter().find(|(name, _)| *name == field.name).map(|(_, kind)| kind.clone());
            fields.push(match &target {
                Some(kind) => {
                    let cast =
                        Self::cast_schema(&field.schema, kind, Schema::new(kind.clone()), &field.name)?;
                    Field::new(field.name.clone(), Arc::new(cast))
                }
                None => field.clone(),
            });
            targets.push(target);
        }
        let schema = structs::struct_with(schema, fields)?.optional(schema.optional);
        Ok(Plan { schema: Arc::new(schema), targets })
    }

    /// Returns `new`, optional as the old schema and with its default converted.
    fn cast_schema(old: &Schema, kind: &Kind, new: Schema, name: &str) -> Result<Schema, Problem> {
        let default = match &old.default {
            Some(default) => Some(cast(old, default.clone(), kind, name)?),
            None => None,
        };
        Ok(Schema { optional: old.optional, default, ..new })
    }
}

impl Spec {
    fn parse(parts: &[String]) -> Option<Self> {
        if let [whole] = parts
            && !whole.contains(':')
        {
            return kind(whole).map(Self::Whole);
        }
        let pair = |part: &String| {
            let (name, target) = part.split_once(':')?;
            Some((name.trim().to_owned(), kind(target)?))
        };
        parts.iter().map(pair).collect::<Option<_>>().map(Self::Fields)
    }
}

fn kind(name: &str) -> Option<Kind> {
    Some(match name.trim().to_ascii_lowercase().as_str() {
        "int8" => Kind::Int8,
        "int16" => Kind::Int16,
        "int32" => Kind::Int32,
        "int64" => Kind::Int64,
        "float32" => Kind::Float32,
        "float64" => Kind::Float64,
        "boolean" => Kind::Boolean,
        "string" => Kind::String,
        _ => return None,
    })
}

impl Transform for Cast {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        let datum = self.side.of(&mut record);
        if datum.value.is_null() {
            return Ok(Some(record));
        }
        if let Spec::Whole(kind) = &self.spec {
            let value = std::mem::replace(&mut datum.value, Value::Null);
            let schema = datum.schema.take().ok_or(Problem::NoSchema)?;
            let plan = self.plans.get(&schema, |schema| self.plan(schema))?;
            *datum = Datum::new(Arc::clone(&plan.schema), cast(&schema, value, kind, "")?);
            return Ok(Some(record));
        }
        let mut taken = self.side.take(&mut record)?;
        let plan = self.plans.get(&taken.schema, |schema| self.plan(schema))?;
        if self.replace_null_with_default {
            structs::fill_defaults(&taken.schema, &mut taken.values);
        }
        let targets = plan.targets.iter().zip(structs::fields(&taken.schema)).zip(&mut taken.values);
        for ((target, field), value) in targets {
            let Some(kind) = target else { continue };
            let old = std::mem::replace(value, Value::Null);
            *value = cast(&field.schema, old, kind, &field.name)?;
        }
        *self.side.of(&mut record) = Datum::new(Arc::clone(&plan.schema), Value::Struct(taken.values));
        Ok(Some(record))
    }

    fn shares_headers(&self, record: &SourceRecord<'_>) -> bool {
        self.side.is_null(record)
    }
}

/// Number during its conversion from one type to another.
enum Number {
    Whole(i64),
    Float32(f32),
    Float64(f64),
}

/// Converts a value to another type. Numbers are narrowed as in Java, without an error.
fn cast<'a>(schema: &Schema, value: Value<'a>, kind: &Kind, field: &str) -> Result<Value<'a>, Problem> {
    if value.is_null() {
        return Ok(value);
    }
    let unsupported = || Problem::UnsupportedField {
        field: field.to_owned(),
        schema: schema.kind.to_string(),
        transform: "Cast",
    };
    if *kind == Kind::String {
        return text(value).ok_or_else(unsupported);
    }
    if let Value::Str(text) = &value {
        return read(text, kind);
    }
    let number = match value {
        Value::Bool(value) => Number::Whole(value.into()),
        Value::Int8(value) => Number::Whole(value.into()),
        Value::Int16(value) => Number::Whole(value.into()),
        Value::Int32(value) => Number::Whole(value.into()),
        Value::Int64(value) => Number::Whole(value),
        Value::Float32(value) => Number::Float32(value),
        Value::Float64(value) => Number::Float64(value),
        Value::Date(millis) if schema.name() == Some(DATE) => {
            Number::Whole(millis.div_euclid(MILLIS_PER_DAY))
        }
        Value::Date(millis) => Number::Whole(millis),
        Value::Decimal(decimal) => match kind {
            Kind::Float32 | Kind::Float64 => return read(&decimal.to_plain_string(), kind),
            _ => Number::Whole(numbers::whole(&decimal)),
        },
        _ => return Err(unsupported()),
    };
    Ok(number.to(kind))
}

impl Number {
    fn to(&self, kind: &Kind) -> Value<'static> {
        match kind {
            Kind::Boolean => Value::Bool(self.whole() != 0),
            Kind::Int8 => Value::Int8(numbers::low_i8(self.narrow())),
            Kind::Int16 => Value::Int16(numbers::low_i16(self.narrow())),
            Kind::Int32 => Value::Int32(numbers::low_i32(self.narrow())),
            Kind::Float32 => Value::Float32(match self {
                Self::Whole(number) => number.to_string().parse().unwrap_or_default(),
                Self::Float32(number) => *number,
                Self::Float64(number) => format!("{number:e}").parse().unwrap_or_default(),
            }),
            Kind::Float64 => Value::Float64(match self {
                Self::Whole(number) => number.to_string().parse().unwrap_or_default(),
                Self::Float32(number) => (*number).into(),
                Self::Float64(number) => *number,
            }),
            _ => Value::Int64(self.whole()),
        }
    }

    fn whole(&self) -> i64 {
        match self {
            Self::Whole(number) => *number,
            Self::Float32(number) => numbers::whole_of_float((*number).into()),
            Self::Float64(number) => numbers::whole_of_float(*number),
        }
    }

    /// Returns the number from which the bits of a small type are cut. As in Java, a float becomes an INT32 first.
    fn narrow(&self) -> i64 {
        match self {
            Self::Whole(number) => *number,
            _ => self.whole().clamp(i32::MIN.into(), i32::MAX.into()),
        }
    }
}

/// Parses a number or boolean.
fn read<'a>(text: &str, kind: &Kind) -> Result<Value<'a>, Problem> {
    let read = match kind {
        Kind::Boolean => Some(Value::Bool(text.eq_ignore_ascii_case("true"))),
        Kind::Int8 => text.parse().ok().map(Value::Int8),
        Kind::Int16 => text.parse().ok().map(Value::Int16),
        Kind::Int32 => text.parse().ok().map(Value::Int32),
        Kind::Float32 => numbers::parse_f32(text).map(Value::Float32),
        Kind::Float64 => numbers::parse_f64(text).map(Value::Float64),
        _ => text.parse().ok().map(Value::Int64),
    };
    read.ok_or(Problem::Unreadable(match kind {
        Kind::Int8 => "an int8",
        Kind::Int16 => "an int16",
        Kind::Int32 => "an int32",
        Kind::Float32 | Kind::Float64 => "a float",
        _ => "an int64",
    }))
}

/// Returns the text of Java's `toString()`; bytes in base64, dates as in Connect's headers. None for null, arrays, maps and
/// structs.
fn text(value: Value<'_>) -> Option<Value<'_>> {
    let mut out = Vec::new();
    match value {
        Value::Str(_) => return Some(value),
        Value::Bool(value) => return Some(owned(value.to_string())),
        Value::Int8(value) => return Some(owned(value.to_string())),
        Value::Int16(value) => return Some(owned(value.to_string())),
        Value::Int32(value) => return Some(owned(value.to_string())),
        Value::Int64(value) => return Some(owned(value.to_string())),
        Value::Decimal(value) => return Some(owned(value.to_string())),
        Value::Bytes(bytes) => return Some(owned(STANDARD.encode(bytes))),
        Value::Json(text) => return Some(Value::Str(text)),
        Value::Float32(value) => java::float::write_f32(&mut out, value),
        Value::Float64(value) => java::float::write_f64(&mut out, value),
        Value::Date(millis) => java::date::write_header(&mut out, millis),
        Value::Null | Value::Array(_) | Value::Map(_) | Value::Struct(_) => return None,
    }
    String::from_utf8(out).ok().map(owned)
}

const fn owned<'a>(text: String) -> Value<'a> {
    Value::Str(std::borrow::Cow::Owned(text))
}
