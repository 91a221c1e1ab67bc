//! Transform `MaskField`.

use std::sync::Arc;

use crate::java::numbers;
use crate::source_record::{Datum, SourceRecord};
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::fields::schemas::PerSchema;
use crate::transform::fields::side::Side;
use crate::transform::fields::structs;
use crate::transform::settings::Settings;
use crate::{Decimal, Refused, Schema, Value};

/// Transform `MaskField`, which replaces fields by zero, by the empty text, or by another text or number.
#[derive(Debug)]
pub(in crate::transform) struct MaskField {
    side: Side,
    fields: Vec<String>,
    replacement: Option<String>,
    replace_null_with_default: bool,
    masked: PerSchema<Vec<usize>>,
}

impl MaskField {
    pub(in crate::transform) fn read(side: Side, settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        let replace_null_with_default = settings.boolean("replace.null.with.default", true);
        let (fields, replacement) = (settings.required_list("fields")?, settings.text("replacement"));
        Ok(Self { side, fields, replacement, replace_null_with_default, masked: PerSchema::default() })
    }

    fn positions(&self, schema: &Schema) -> Vec<usize> {
        let fields = structs::fields(schema).iter().enumerate();
        fields.filter(|(_, field)| self.fields.contains(&field.name)).map(|(index, _)| index).collect()
    }
}

impl Transform for MaskField {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        let mut taken = self.side.take(&mut record)?;
        let masked = self.masked.get(&taken.schema, |schema| Ok::<_, Problem>(self.positions(schema)))?;
        if self.replace_null_with_default {
            structs::fill_defaults(&taken.schema, &mut taken.values);
        }
        for index in masked.iter() {
            let Some(value) = taken.values.get_mut(*index) else { continue };
            let mask = match &self.replacement {
                Some(text) => replaced(value, text),
                None => Some(zero(value)).flatten(),
            };
            *value = mask.ok_or_else(|| unsupported(&taken.schema, *index))?;
        }
        *self.side.of(&mut record) = Datum::new(Arc::clone(&taken.schema), Value::Struct(taken.values));
        Ok(Some(record))
    }
}

/// Returns the empty value of the same kind, such as 0, false or the empty text; none for bytes, JSON and structs.
fn zero<'a>(value: &Value<'a>) -> Option<Value<'a>> {
    Some(match value {
        Value::Null => Value::Null,
        Value::Bool(_) => Value::Bool(false),
        Value::Int8(_) => Value::Int8(0),
        Value::Int16(_) => Value::Int16(0),
        Value::Int32(_) => Value::Int32(0),
        Value::Int64(_) => Value::Int64(0),
        Value::Float32(_) => Value::Float32(0.0),
        Value::Float64(_) => Value::Float64(0.0),
        // Without the scale of the schema, like `BigDecimal.ZERO`.
        Value::Decimal(_) => Value::Decimal(Decimal::parse("0")?),
        Value::Date(_) => Value::Date(0),
        Value::Str(_) => Value::str(""),
        Value::Array(_) => Value::Array(Vec::new()),
        Value::Map(_) => Value::Map(Vec::new()),
        Value::Bytes(_) | Value::Json(_) | Value::Struct(_) => return None,
    })
}

/// Returns the replacement as a value of the same kind; none when that is impossible.
fn replaced<'a>(value: &Value<'_>, text: &'a str) -> Option<Value<'a>> {
    let whole = || Decimal::parse(text.trim()).map(|decimal| numbers::whole(&decimal));
    Some(match value {
        Value::Null => Value::Null,
        Value::Str(_) => Value::str(text),
        Value::Int8(_) => Value::Int8(numbers::low_i8(whole()?)),
        Value::Int16(_) => Value::Int16(numbers::low_i16(whole()?)),
        Value::Int32(_) => Value::Int32(numbers::low_i32(whole()?)),
        Value::Int64(_) => Value::Int64(whole()?),
        Value::Float32(_) => Value::Float32(numbers::parse_f32(text)?),
        Value::Float64(_) => Value::Float64(numbers::parse_f64(text)?),
        Value::Decimal(decimal) => Value::Decimal(Decimal::parse(text)?.with_scale(decimal.scale())?),
        _ => return None,
    })
}

fn unsupported(schema: &Schema, index: usize) -> Problem {
    let field = structs::fields(schema).get(index);
    let (name, kind) =
        field.map(|field| (field.name.clone(), field.schema.kind.to_string())).unwrap_or_default();
    Problem::UnsupportedField { field: name, schema: kind, transform: "MaskField" }
}
