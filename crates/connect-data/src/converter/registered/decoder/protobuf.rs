//! Protobuf's binary encoding as JSON.

use jiff::civil::date;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, ReflectMessage as _, Value as Read};

use super::DecodeError;
use super::protobuf_schema::{ProtobufSchema, field_name};
use crate::converter::JsonConverter;
use crate::converter::json_text::{NonBmp, write_string};
use crate::{Decimal, Value};

/// Maximum nesting depth of messages in a file.
const INDEXES_MAX: usize = 64;

/// A value that does not match its schema.
struct Malformed;

/// Returns a value as JSON. The body has the indexes of the message, followed by the message.
pub(super) fn json(schema: &ProtobufSchema, body: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut out = Vec::new();
    match read(schema, body).and_then(|read| message(&mut out, &read)) {
        Ok(()) => Ok(out),
        Err(Malformed) => Err(DecodeError::Malformed("PROTOBUF")),
    }
}

fn read(schema: &ProtobufSchema, mut body: &[u8]) -> Result<DynamicMessage, Malformed> {
    let indexes = match signed(&mut body)? {
        0 => vec![0],
        count if count <= INDEXES_MAX => (0..count).map(|_| signed(&mut body)).collect::<Result<_, _>>()?,
        _ => return Err(Malformed),
    };
    let descriptor = schema.message(&indexes).ok_or(Malformed)?;
    let read = DynamicMessage::decode(descriptor, body).map_err(|_| Malformed)?;
    // The value was written with exactly this schema.
    if read.unknown_fields().next().is_some() { Err(Malformed) } else { Ok(read) }
}

/// Reads a number in zigzag encoding that is not negative.
fn signed(body: &mut &[u8]) -> Result<usize, Malformed> {
    let mut number = 0_u64;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = body.split_first().ok_or(Malformed)?;
        *body = rest;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return if number & 1 == 0 {
                usize::try_from(number >> 1).map_err(|_| Malformed)
            } else {
                Err(Malformed)
            };
        }
    }
    Err(Malformed)
}

/// Appends a message as Connect represents it; some messages are scalars.
fn message(out: &mut Vec<u8>, read: &DynamicMessage) -> Result<(), Malformed> {
    let number = |field: u32| integer(read, field);
    let known = match read.descriptor().full_name() {
        "google.protobuf.DoubleValue"
        | "google.protobuf.FloatValue"
        | "google.protobuf.Int64Value"
        | "google.protobuf.UInt64Value"
        | "google.protobuf.Int32Value"
        | "google.protobuf.UInt32Value"
        | "google.protobuf.BoolValue"
        | "google.protobuf.StringValue"
        | "google.protobuf.BytesValue" => {
            let only = read.descriptor().get_field(1).ok_or(Malformed)?;
            return field(out, read, &only);
        }
        "google.protobuf.Timestamp" => number(1).saturating_mul(1_000).saturating_add(number(2) / 1_000_000),
        "google.type.Date" => days(number(1), number(2), number(3)).ok_or(Malformed)?,
        "google.type.TimeOfDay" => {
            let seconds = (number(1).saturating_mul(60).saturating_add(number(2))).saturating_mul(60);
            seconds.saturating_add(number(3)).saturating_mul(1_000).saturating_add(number(4) / 1_000_000)
        }
        "confluent.type.Decimal" => {
            let unscaled = read.get_field_by_number(1).ok_or(Malformed)?;
            let scale = i32::try_from(number(3)).map_err(|_| Malformed)?;
            let unscaled = unscaled.as_bytes().ok_or(Malformed)?;
            let decimal = Decimal::from_unscaled_bytes(unscaled, scale).ok_or(Malformed)?;
            return scalar(out, &Value::Decimal(decimal));
        }
        _ => return object(out, read),
    };
    scalar(out, &Value::Int64(known))
}

fn object(out: &mut Vec<u8>, read: &DynamicMessage) -> Result<(), Malformed> {
    out.push(b'{');
    for (index, each) in read.descriptor().fields().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_string(out, field_name(&each), NonBmp::Raw);
        out.push(b':');
        field(out, read, &each)?;
    }
    out.push(b'}');
    Ok(())
}

/// Appends a field. A missing field is null, or zero if the field does not record its presence.
fn field(out: &mut Vec<u8>, read: &DynamicMessage, field: &FieldDescriptor) -> Result<(), Malformed> {
    if field.supports_presence() && !read.has_field(field) {
        return scalar(out, &Value::Null);
    }
    value(out, &read.get_field(field), &field.kind())
}

fn value(out: &mut Vec<u8>, read: &Read, kind: &Kind) -> Result<(), Malformed> {
    match read {
        Read::Bool(flag) => scalar(out, &Value::Bool(*flag)),
        Read::I32(number) => scalar(out, &Value::Int32(*number)),
        Read::I64(number) => scalar(out, &Value::Int64(*number)),
        Read::U32(number) => scalar(out, &Value::Int64(i64::from(*number))),
        Read::U64(number) => {
            out.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes());
            Ok(())
        }
        Read::F32(number) => scalar(out, &Value::Float32(*number)),
        Read::F64(number) => scalar(out, &Value::Float64(*number)),
        Read::String(text) => {
            write_string(out, text, NonBmp::Raw);
            Ok(())
        }
        Read::Bytes(bytes) => scalar(out, &Value::Bytes(bytes.as_ref().into())),
        Read::EnumNumber(number) => match kind.as_enum().and_then(|of| of.get_value(*number)) {
            Some(name) => {
                write_string(out, name.name(), NonBmp::Raw);
                Ok(())
            }
            None => scalar(out, &Value::Int32(*number)),
        },
        Read::Message(inner) => message(out, inner),
        Read::List(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                value(out, item, kind)?;
            }
            out.push(b']');
            Ok(())
        }
        Read::Map(_) => map(out, read, kind),
    }
}

/// Appends a map, sorted by key because maps have no order.
fn map(out: &mut Vec<u8>, read: &Read, kind: &Kind) -> Result<(), Malformed> {
    let entry = kind.as_message().ok_or(Malformed)?;
    let values = entry.map_entry_value_field().kind();
    let mut entries: Vec<_> = read.as_map().ok_or(Malformed)?.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    out.push(b'{');
    for (index, (key, item)) in entries.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let mut name = Vec::new();
        value(&mut name, &key.clone().into(), &entry.map_entry_key_field().kind())?;
        // The key of a JSON object is a string.
        if name.first() == Some(&b'"') {
            out.append(&mut name);
        } else {
            out.push(b'"');
            out.append(&mut name);
            out.push(b'"');
        }
        out.push(b':');
        value(out, item, &values)?;
    }
    out.push(b'}');
    Ok(())
}

fn integer(read: &DynamicMessage, field: u32) -> i64 {
    let value = read.get_field_by_number(field);
    value.map_or(0, |value| value.as_i64().or(value.as_i32().map(i64::from)).unwrap_or_default())
}

/// Returns the number of days since 1970-01-01.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let (year, month, day) = (i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?);
    let day = jiff::civil::Date::new(year, month, day).ok()?;
    day.since(date(1970, 1, 1)).ok().map(|span| i64::from(span.get_days()))
}

fn scalar(out: &mut Vec<u8>, value: &Value<'_>) -> Result<(), Malformed> {
    JsonConverter::NUMERIC.write(out, None, value).map_err(|_| Malformed)
}
