//! Protobuf's wire format: <https://protobuf.dev/programming-guides/encoding/>.

use super::logical::Logical;
use super::wrapper::Wrapper;
use super::{ConvertError, ProtobufOptions, SchemaError, unsupported};
use crate::{Field, Kind, Schema, Value};

/// Wire type of a field.
#[derive(Debug, Clone, Copy)]
enum WireType {
    Varint,
    Fixed64,
    Length,
    Fixed32,
}

impl WireType {
    const fn bits(self) -> u64 {
        match self {
            Self::Varint => 0,
            Self::Fixed64 => 1,
            Self::Length => 2,
            Self::Fixed32 => 5,
        }
    }
}

/// Handling of a scalar that is zero, false or empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Zero {
    Written,
    Omitted,
}

/// Writer of values with the converter's options.
#[derive(Debug, Clone, Copy)]
pub(in crate::converter) struct Writer {
    options: ProtobufOptions,
}

impl Writer {
    pub(super) const fn new(options: ProtobufOptions) -> Self {
        Self { options }
    }

    /// Appends the fields of a struct.
    pub(super) fn fields(
        self,
        out: &mut Vec<u8>,
        fields: &[Field],
        values: &[Value<'_>],
    ) -> Result<(), ConvertError> {
        for (number, (field, value)) in (1_u32..).zip(fields.iter().zip(values)) {
            self.field(out, number, &field.schema, value)?;
        }
        Ok(())
    }

    /// Appends the only field of a wrapper.
    pub(super) fn wrapped(
        self,
        out: &mut Vec<u8>,
        schema: &Schema,
        value: &Value<'_>,
    ) -> Result<(), ConvertError> {
        put_scalar(out, 1, schema, value, Zero::Omitted)
    }

    /// Appends a field. A null is omitted, unless it has a default.
    pub(in crate::converter) fn field(
        self,
        out: &mut Vec<u8>,
        number: u32,
        schema: &Schema,
        value: &Value<'_>,
    ) -> Result<(), ConvertError> {
        let zero = if self.options.optionals && schema.optional { Zero::Written } else { Zero::Omitted };
        self.any(out, number, schema, value, zero)
    }

    /// Appends a field, with `zero` as the handling of zeros.
    fn any(
        self,
        out: &mut Vec<u8>,
        number: u32,
        schema: &Schema,
        value: &Value<'_>,
        zero: Zero,
    ) -> Result<(), ConvertError> {
        let default = schema.default.as_ref().filter(|_| value.is_null() && !self.options.ignore_defaults);
        match (&schema.kind, default.unwrap_or(value)) {
            (_, Value::Null) if schema.optional => Ok(()),
            (_, Value::Null) => Err(ConvertError::RequiredNull),
            (Kind::Array(element), Value::Array(items)) => self.list(out, number, element, items),
            (Kind::Map(keys, values), Value::Map(entries)) => entries.iter().try_for_each(|(key, value)| {
                put_message(out, number, |out| {
                    // The fields of an entry are never `optional`.
                    self.any(out, 1, keys, key, Zero::Omitted)?;
                    self.any(out, 2, values, value, Zero::Omitted)
                })
            }),
            (_, value) => self.single(out, number, schema, value, zero),
        }
    }

    /// Appends a value that is neither a list nor a map.
    fn single(
        self,
        out: &mut Vec<u8>,
        number: u32,
        schema: &Schema,
        value: &Value<'_>,
        zero: Zero,
    ) -> Result<(), ConvertError> {
        if let (Kind::Struct(fields), Value::Struct(values)) = (&schema.kind, value) {
            return put_message(out, number, |out| self.fields(out, fields, values));
        }
        if let Some(logical) = Logical::of(schema) {
            return logical.write(out, number, schema, value);
        }
        if self.is_wrapped(schema) {
            return put_message(out, number, |out| self.wrapped(out, schema, value));
        }
        put_scalar(out, number, schema, value, zero)
    }

    /// Appends a list. Numbers share one tag; other items have a tag each.
    fn list(
        self,
        out: &mut Vec<u8>,
        number: u32,
        element: &Schema,
        items: &[Value<'_>],
    ) -> Result<(), ConvertError> {
        if items.iter().any(Value::is_null) {
            return Err(SchemaError::NullInList.into());
        }
        let is_packed = !items.is_empty()
            && !matches!(element.kind, Kind::String | Kind::Bytes)
            && Wrapper::of(&element.kind).is_some()
            && Logical::of(element).is_none()
            && !self.is_wrapped(element);
        if is_packed {
            return put_message(out, number, |out| {
                items.iter().try_for_each(|item| put_bare(out, element, item))
            });
        }
        items.iter().try_for_each(|item| self.single(out, number, element, item, Zero::Written))
    }

    const fn is_wrapped(self, schema: &Schema) -> bool {
        self.options.wrappers && schema.optional && Wrapper::of(&schema.kind).is_some()
    }
}

/// Appends a scalar with its tag.
fn put_scalar(
    out: &mut Vec<u8>,
    number: u32,
    schema: &Schema,
    value: &Value<'_>,
    zero: Zero,
) -> Result<(), ConvertError> {
    if zero == Zero::Omitted && is_zero(value) {
        return Ok(());
    }
    let wire_type = match schema.kind {
        Kind::Float64 => WireType::Fixed64,
        Kind::Float32 => WireType::Fixed32,
        Kind::String | Kind::Bytes => WireType::Length,
        _ => WireType::Varint,
    };
    put_tag(out, number, wire_type);
    put_bare(out, schema, value)
}

/// Reports whether a scalar is a zero value that may be omitted. The negative zero of a float is not.
fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Bool(flag) => !flag,
        Value::Int8(number) => *number == 0,
        Value::Int16(number) => *number == 0,
        Value::Int32(number) => *number == 0,
        Value::Int64(number) => *number == 0,
        Value::Float32(number) => number.to_bits() == 0,
        Value::Float64(number) => number.to_bits() == 0,
        Value::Str(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        _ => false,
    }
}

/// Appends a scalar without its tag.
fn put_bare(out: &mut Vec<u8>, schema: &Schema, value: &Value<'_>) -> Result<(), ConvertError> {
    match (&schema.kind, value) {
        (Kind::Boolean, Value::Bool(flag)) => out.push(u8::from(*flag)),
        (Kind::Int8, Value::Int8(number)) => put_varint(out, i64::from(*number).cast_unsigned()),
        (Kind::Int16, Value::Int16(number)) => put_varint(out, i64::from(*number).cast_unsigned()),
        (Kind::Int32, Value::Int32(number)) => put_varint(out, i64::from(*number).cast_unsigned()),
        (Kind::Int64, Value::Int64(number)) => put_varint(out, number.cast_unsigned()),
        (Kind::Float32, Value::Float32(number)) => out.extend(number.to_le_bytes()),
        (Kind::Float64, Value::Float64(number)) => out.extend(number.to_le_bytes()),
        (Kind::Float64, Value::Json(digits)) => {
            let nearest: f64 = digits.parse().map_err(|_| unsupported(schema))?;
            out.extend(nearest.to_le_bytes());
        }
        (Kind::String, Value::Str(text)) => put_bytes(out, text.as_bytes()),
        (Kind::String, Value::Json(text)) => put_bytes(out, text.as_bytes()),
        (Kind::Bytes, Value::Bytes(bytes)) => put_bytes(out, bytes),
        _ => return Err(unsupported(schema).into()),
    }
    Ok(())
}

/// Appends an integer field of a message defined by Google or Confluent, unless it is zero.
pub(super) fn put_integer(out: &mut Vec<u8>, number: u32, value: i64) {
    if value != 0 {
        put_tag(out, number, WireType::Varint);
        put_varint(out, value.cast_unsigned());
    }
}

/// Appends a bytes field, even if it is empty.
pub(super) fn put_present(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_tag(out, number, WireType::Length);
    put_bytes(out, bytes);
}

/// Appends the output of `write` as a message with its length.
pub(super) fn put_message(
    out: &mut Vec<u8>,
    number: u32,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), ConvertError>,
) -> Result<(), ConvertError> {
    let message = OpenMessage::begin(out, number);
    write(out)?;
    message.end(out);
    Ok(())
}

/// A message whose length is not known yet.
#[derive(Debug)]
pub(in crate::converter) struct OpenMessage {
    /// Offset of its length.
    start: usize,
}

impl OpenMessage {
    /// Begins a message that is field `number` of another message.
    pub(in crate::converter) fn begin(out: &mut Vec<u8>, number: u32) -> Self {
        put_tag(out, number, WireType::Length);
        let start = out.len();
        // Usually the length takes one byte.
        out.push(0);
        Self { start }
    }

    /// Ends the message and inserts its length.
    pub(in crate::converter) fn end(self, out: &mut Vec<u8>) {
        let Self { start } = self;
        let length = out.len().saturating_sub(start).saturating_sub(1);
        if let (Ok(length), Some(place)) = (u8::try_from(length), out.get_mut(start))
            && length < 0x80
        {
            *place = length;
            return;
        }
        let mut prefix = Vec::with_capacity(VARINT_BYTES_MAX);
        put_varint(&mut prefix, u64::try_from(length).unwrap_or(u64::MAX));
        out.splice(start..=start, prefix);
    }
}

/// Maximum length of a varint: 64 bits, seven per byte.
const VARINT_BYTES_MAX: usize = 10;

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    out.extend_from_slice(bytes);
}

fn put_tag(out: &mut Vec<u8>, number: u32, wire_type: WireType) {
    put_varint(out, u64::from(number) << 3 | wire_type.bits());
}

/// Appends a number, seven bits per byte, the lowest first.
pub(super) fn put_varint(out: &mut Vec<u8>, number: u64) {
    let mut rest = number;
    while rest > 0x7F {
        out.push(u8::try_from(rest & 0x7F).unwrap_or_default() | 0x80);
        rest >>= 7;
    }
    out.push(u8::try_from(rest).unwrap_or_default());
}
