use super::ConvertError;
use super::avro;
use super::json::JsonConverter;
use super::json_text::{NonBmp, write_string};
use crate::connect::{Schema, Value};

/// Writes a struct field by field, so that nobody has to gather its values first.
#[derive(Debug)]
pub(crate) struct StructWriter<'w> {
    form: Form<'w>,
    out: &'w mut Vec<u8>,
}

/// How values are written.
#[derive(Debug, Clone, Copy)]
enum Form<'w> {
    Json(&'w JsonConverter),
    Avro,
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
    pub(super) const fn json(converter: &'w JsonConverter, out: &'w mut Vec<u8>) -> Self {
        Self { form: Form::Json(converter), out }
    }

    pub(super) const fn avro(out: &'w mut Vec<u8>) -> Self {
        Self { form: Form::Avro, out }
    }

    /// A struct of this schema begins.
    pub(crate) fn begin(&mut self, schema: &Schema) {
        match self.form {
            Form::Json(_) => self.out.push(b'{'),
            Form::Avro => avro::begin_struct(self.out, schema),
        }
    }

    /// The struct that began last is complete.
    pub(crate) fn end(&mut self) {
        match self.form {
            Form::Json(_) => self.out.push(b'}'),
            Form::Avro => {}
        }
    }

    /// The next value is that of this field.
    pub(crate) fn label(&mut self, label: &FieldLabel) {
        if let Form::Json(_) = self.form {
            // No value ends like this.
            if self.out.last() != Some(&b'{') {
                self.out.push(b',');
            }
            self.out.extend_from_slice(&label.json);
        }
    }

    /// A value that is whole.
    pub(crate) fn value(&mut self, schema: &Schema, value: &Value<'_>) -> Result<(), ConvertError> {
        match self.form {
            Form::Json(converter) => converter.write(self.out, Some(schema), value),
            Form::Avro => avro::write_field(self.out, schema, value),
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
