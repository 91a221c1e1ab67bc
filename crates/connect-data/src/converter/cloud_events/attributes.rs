//! Attributes of a cloud event.

use std::borrow::Cow;
use std::sync::Arc;

use super::metadata::Event;
use super::record::Record;
use crate::converter::ConvertError;
use crate::converter::json_text::{NonBmp, write_string};
use crate::converter::string::write_scalar;
use crate::{Field, Kind, Schema, Value};

/// Attributes of the transaction, present even without one.
const TRANSACTION: [&str; 3] = ["id", "total_order", "data_collection_order"];

/// Attributes of an event, in output order.
#[derive(Default)]
pub(super) struct Attributes<'v>(Vec<Attribute<'v>>);

struct Attribute<'v> {
    name: Cow<'static, str>,
    kind: Kind,
    is_optional: bool,
    value: Value<'v>,
}

impl<'v> Attributes<'v> {
    /// Adds a text attribute.
    pub(super) fn text(&mut self, name: impl Into<Cow<'static, str>>, value: String) {
        self.0.push(Attribute {
            name: name.into(),
            kind: Kind::String,
            is_optional: false,
            value: Value::Str(value.into()),
        });
    }

    /// Adds the extension attributes, which CloudEvents does not define. 64-bit numbers are written as text.
    pub(super) fn extensions(
        &mut self,
        event: Event<'_, 'v>,
        source: Record<'_, 'v>,
    ) -> Result<(), ConvertError> {
        self.text(extension("op"), event.operation()?);
        for (field, value) in source.all() {
            self.extension(&field.name, &field.schema, value, field.schema.optional)?;
        }
        let transaction = event.transaction();
        let null = (&Schema::new(Kind::String), &Value::Null);
        for name in TRANSACTION {
            let (schema, value) = transaction.map_or(Ok(null), |transaction| transaction.get(name))?;
            self.extension(&format!("tx{name}"), schema, value, true)?;
        }
        Ok(())
    }

    fn extension(
        &mut self,
        name: &str,
        schema: &Schema,
        value: &Value<'v>,
        is_optional: bool,
    ) -> Result<(), ConvertError> {
        let no_event = || ConvertError::NoCloudEvent(name.to_owned());
        let kind = match schema.kind {
            Kind::Boolean => Kind::Boolean,
            Kind::Int8 | Kind::Int16 | Kind::Int32 => Kind::Int32,
            Kind::String | Kind::Int64 => Kind::String,
            _ => return Err(no_event()),
        };
        let value = match value {
            Value::Null if is_optional => Value::Null,
            Value::Null => return Err(ConvertError::RequiredNull),
            Value::Int64(number) => Value::Str(number.to_string().into()),
            Value::Int8(number) => Value::Int32((*number).into()),
            Value::Int16(number) => Value::Int32((*number).into()),
            Value::Str(_) | Value::Bool(_) | Value::Int32(_) => value.clone(),
            _ => return Err(no_event()),
        };
        self.0.push(Attribute { name: extension(name).into(), kind, is_optional, value });
        Ok(())
    }

    /// Begins a JSON object with the attributes and leaves it open.
    pub(super) fn write_json(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        for (at, attribute) in self.0.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            write_string(out, &attribute.name, NonBmp::Escaped);
            out.push(b':');
            match &attribute.value {
                Value::Null => out.extend(b"null"),
                Value::Str(text) => write_string(out, text, NonBmp::Escaped),
                value => write_scalar(out, value),
            }
        }
    }

    /// Converts to a struct of the attributes followed by the data.
    pub(super) fn into_struct(self, name: String, data: Vec<u8>) -> (Schema, Value<'v>) {
        let (mut fields, mut values) = (Vec::new(), Vec::new());
        for Attribute { name, kind, is_optional, value } in self.0 {
            fields.push(Field::new(name, Arc::new(Schema::new(kind).optional(is_optional))));
            values.push(value);
        }
        fields.push(Field::new("data", Arc::new(Schema::new(Kind::Bytes))));
        values.push(Value::Bytes(data.into()));
        let schema = Schema { name: Some(name.into()), ..Schema::new(Kind::Struct(fields)) };
        (schema, Value::Struct(values))
    }
}

/// Returns the name of an extension attribute: a prefix, and the ASCII alphanumeric characters of the field's name.
fn extension(field: &str) -> String {
    "iodebezium".chars().chain(field.chars().filter(char::is_ascii_alphanumeric)).collect()
}
