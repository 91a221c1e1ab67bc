//! Transform `VectorToJsonConverter`.

use std::borrow::Cow;
use std::sync::Arc;

use crate::source_record::{Datum, SourceRecord};
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::fields::schemas::PerSchema;
use crate::transform::fields::side::Side;
use crate::transform::fields::structs;
use crate::{Field, Kind, Schema, Value, java};

/// Transform `VectorToJsonConverter`, which converts all vectors of the value to JSON, also those in nested structs.
#[derive(Debug, Default)]
pub(in crate::transform) struct VectorToJsonConverter {
    plans: PerSchema<Plan>,
}

/// New schema of a struct, and the conversion of each of its fields.
#[derive(Debug)]
struct Plan {
    schema: Arc<Schema>,
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Same,
    List,
    Sparse,
    Struct(Plan),
}

impl Plan {
    fn new(schema: &Schema) -> Result<Self, Problem> {
        let (mut fields, mut parts) = (Vec::new(), Vec::new());
        for field in structs::fields(schema) {
            let part = Part::of(&field.schema)?;
            let schema = match &part {
                Part::Same => Arc::clone(&field.schema),
                Part::Struct(plan) => Arc::clone(&plan.schema),
                Part::List | Part::Sparse => Arc::new(
                    Schema::named(Kind::String, "io.debezium.data.Json").optional(field.schema.optional),
                ),
            };
            fields.push(Field::new(field.name.clone(), schema));
            parts.push(part);
        }
        let schema = structs::struct_with(schema, fields)?.optional(schema.optional);
        Ok(Self { schema: Arc::new(schema), parts })
    }

    fn convert<'a>(&self, schema: &Schema, values: Vec<Value<'a>>) -> Vec<Value<'a>> {
        let fields = structs::fields(schema).iter().zip(&self.parts).zip(values);
        let convert = |((field, part), value): ((&Field, &Part), _)| {
            part.convert(&field.schema, structs::or_default(&field.schema, value))
        };
        fields.map(convert).collect()
    }
}

impl Part {
    fn of(schema: &Schema) -> Result<Self, Problem> {
        Ok(match (schema.name(), &schema.kind) {
            (Some("io.debezium.data.DoubleVector" | "io.debezium.data.FloatVector"), _) => Self::List,
            (Some("io.debezium.data.SparseDoubleVector"), _) => Self::Sparse,
            (_, Kind::Struct(_)) => Self::Struct(Plan::new(schema)?),
            _ => Self::Same,
        })
    }

    fn convert<'a>(&self, schema: &Schema, value: Value<'a>) -> Value<'a> {
        match (self, value) {
            (Self::Struct(plan), Value::Struct(values)) => Value::Struct(plan.convert(schema, values)),
            (Self::List, Value::Array(numbers)) => list(&numbers),
            (Self::Sparse, Value::Struct(parts)) => sparse(&parts),
            (_, value) => value,
        }
    }
}

impl Transform for VectorToJsonConverter {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        let Some(taken) = Side::Value.take_unless_null(&mut record)? else { return Ok(Some(record)) };
        let plan = self.plans.get(&taken.schema, Plan::new)?;
        let values = plan.convert(&taken.schema, taken.values);
        record.value = Datum::new(Arc::clone(&plan.schema), Value::Struct(values));
        Ok(Some(record))
    }

    fn shares_headers(&self, _record: &SourceRecord<'_>) -> bool {
        true
    }
}

/// Writes `{ "values": [1.0, 2.5] }`.
fn list(numbers: &[Value<'_>]) -> Value<'static> {
    json("{ \"values\": [", numbers.iter(), "] }", write_number)
}

/// Writes `{ "dimensions": 5, "vector": { "1": 0.5, "3": 2.0 } }`, sorted by the numbers of the dimensions.
fn sparse(parts: &[Value<'_>]) -> Value<'static> {
    let [Value::Int16(dimensions), Value::Map(entries)] = parts else { return Value::Null };
    let place = |entry: &(Value<'_>, Value<'_>)| match entry {
        (Value::Int16(place), _) => *place,
        _ => 0,
    };
    let mut sorted: Vec<_> = entries.iter().collect();
    sorted.sort_by_key(|entry| place(entry));
    let open = format!("{{ \"dimensions\": {dimensions}, \"vector\": {{ ");
    json(&open, sorted.into_iter(), " } }", |out, entry| {
        out.extend_from_slice(format!("\"{}\": ", place(entry)).as_bytes());
        write_number(out, &entry.1);
    })
}

fn json<T>(
    open: &str,
    items: impl Iterator<Item = T>,
    close: &str,
    write_item: impl Fn(&mut Vec<u8>, T),
) -> Value<'static> {
    let mut out = open.as_bytes().to_vec();
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.extend_from_slice(b", ");
        }
        write_item(&mut out, item);
    }
    out.extend_from_slice(close.as_bytes());
    String::from_utf8(out).map_or(Value::Null, |text| Value::Str(Cow::Owned(text)))
}

fn write_number(out: &mut Vec<u8>, number: &Value<'_>) {
    match number {
        Value::Float32(number) => java::float::write_f32(out, *number),
        Value::Float64(number) => java::float::write_f64(out, *number),
        _ => out.extend_from_slice(b"null"),
    }
}
