use smallvec::SmallVec;

use super::ConvertError;
use super::json::JsonConverter;
use super::json_text::{NonBmp, write_string};
use super::registered::{self, AvroWriter, OpenMessage, ProtobufWriter};
use crate::connect::{Schema, Value};

/// Writes a struct field by field, so that nobody has to gather its values first.
#[derive(Debug)]
pub(crate) struct StructWriter<'w> {
    form: Form,
    out: &'w mut Vec<u8>,
    /// The messages of Protobuf that are not complete, the innermost last.
    messages: SmallVec<[MessagePlace; 2]>,
}

/// Where a message of Protobuf is.
#[derive(Debug)]
struct MessagePlace {
    /// The number of the field that was begun last.
    field: u32,
    /// None of the outermost, whose length is not told.
    message: Option<OpenMessage>,
}

/// How values are written.
#[derive(Debug, Clone, Copy)]
enum Form {
    Json(JsonConverter),
    Avro(AvroWriter),
    Protobuf(ProtobufWriter),
}

/// A field's name, as it stands before the field's value.
#[derive(Debug)]
pub(crate) struct FieldLabel {
    json: Box<[u8]>,
}

impl FieldLabel {
    pub(crate) fn new(name: &str) -> Self {
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

    /// A struct of this schema begins.
    pub(crate) fn begin(&mut self, schema: &Schema) {
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

    /// The struct that began last is complete.
    pub(crate) fn end(&mut self) {
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

    /// The next value is that of this field.
    pub(crate) fn label(&mut self, label: &FieldLabel) {
        match self.form {
            Form::Json(_) => {
                // No value ends like this.
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

    /// A value that is whole.
    pub(crate) fn value(&mut self, schema: &Schema, value: &Value<'_>) -> Result<(), ConvertError> {
        match self.form {
            Form::Json(converter) => converter.write(self.out, Some(schema), value),
            Form::Avro(writer) => writer.field(self.out, schema, value),
            Form::Protobuf(writer) => {
                let number = self.messages.last().map_or(0, |place| place.field);
                writer.field(self.out, number, schema, value)
            }
        }
    }

    /// A field whose value is whole.
    pub(crate) fn field(
        &mut self,
        label: &FieldLabel,
        schema: &Schema,
        value: &Value<'_>,
    ) -> Result<(), ConvertError> {
        self.label(label);
        self.value(schema, value)
    }
}
