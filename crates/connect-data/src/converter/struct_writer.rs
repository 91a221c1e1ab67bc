//! Fields of a struct as JSON, one by one.

use smallvec::SmallVec;

use super::ConvertError;
use super::json::JsonConverter;
use super::json_text::{NonBmp, write_string};
use super::registered::{self, AvroWriter, OpenMessage, ProtobufWriter};
use crate::{Schema, Value};

/// Writer of a struct's fields one by one, which needs no list of their values.
#[derive(Debug)]
pub struct StructWriter<'w> {
    form: Form,
    out: &'w mut Vec<u8>,
    /// Open messages of Protobuf, the innermost last.
    messages: SmallVec<[MessagePlace; 2]>,
}

/// Open message of Protobuf.
#[derive(Debug)]
struct MessagePlace {
    /// Number of the field that was begun last.
    field: u32,
    /// `None` for the outermost message, which has no length prefix.
    message: Option<OpenMessage>,
}

/// Encoding of the values.
#[derive(Debug, Clone, Copy)]
enum Form {
    Json(JsonConverter),
    Avro(AvroWriter),
    Protobuf(ProtobufWriter),
}

/// A field's name in the form that precedes its value.
#[derive(Debug)]
pub struct FieldLabel {
    json: Box<[u8]>,
}

impl FieldLabel {
    /// Returns the label of a field with this name.
    pub fn new(name: &str) -> Self {
        let mut json = Vec::new();
        write_string(&mut json, name, NonBmp::Escaped);
        json.push(b':');
        Self { json: json.into() }
    }
}

impl<'w> StructWriter<'w> {
    pub(super) fn json(converter: JsonConverter, out: &'w mut Vec<u8>) -> Self {
        Self { form: Form::Json(converter), out, messages: SmallVec::new() }
    }

    pub(super) fn avro(writer: AvroWriter, out: &'w mut Vec<u8>) -> Self {
        Self { form: Form::Avro(writer), out, messages: SmallVec::new() }
    }

    pub(super) fn protobuf(writer: ProtobufWriter, out: &'w mut Vec<u8>) -> Self {
        Self { form: Form::Protobuf(writer), out, messages: SmallVec::new() }
    }

    /// Begins a struct of this schema.
    pub fn begin(&mut self, schema: &Schema) {
        match self.form {
            Form::Json(_) => self.out.push(b'{'),
            Form::Avro(_) => registered::begin_struct(self.out, schema),
            Form::Protobuf(_) => {
                let outer = self.messages.last().map(|outer| outer.field);
                let message = outer.map(|number| OpenMessage::begin(self.out, number));
                self.messages.push(MessagePlace { field: 0, message });
            }
        }
    }

    /// Ends the struct that was begun last.
    pub fn end(&mut self) {
        match self.form {
            Form::Json(_) => self.out.push(b'}'),
            Form::Avro(_) => {}
            Form::Protobuf(_) => {
                if let Some(MessagePlace { message: Some(message), .. }) = self.messages.pop() {
                    message.end(self.out);
                }
            }
        }
    }

    /// Begins a field; the next value is the field's.
    pub fn label(&mut self, label: &FieldLabel) {
        match self.form {
            Form::Json(_) => {
                // No value ends with this character.
                if self.out.last() != Some(&b'{') {
                    self.out.push(b',');
                }
                self.out.extend_from_slice(&label.json);
            }
            Form::Avro(_) => {}
            Form::Protobuf(_) => {
                if let Some(place) = self.messages.last_mut() {
                    place.field = place.field.saturating_add(1);
                }
            }
        }
    }

    /// Writes a complete value.
    ///
    /// # Errors
    /// When the converter cannot write the value.
    pub fn value(&mut self, schema: &Schema, value: &Value<'_>) -> Result<(), ConvertError> {
        match self.form {
            Form::Json(converter) => converter.write(self.out, Some(schema), value),
            Form::Avro(writer) => writer.field(self.out, schema, value),
            Form::Protobuf(writer) => {
                let number = self.messages.last().map_or(0, |place| place.field);
                writer.field(self.out, number, schema, value)
            }
        }
    }

    /// Writes a field with a complete value.
    ///
    /// # Errors
    /// As [`Self::value`].
    pub fn field(
        &mut self,
        label: &FieldLabel,
        schema: &Schema,
        value: &Value<'_>,
    ) -> Result<(), ConvertError> {
        self.label(label);
        self.value(schema, value)
    }
}
