//! Avro's binary encoding as JSON.

use super::DecodeError;
use super::avro_schema::{AvroSchema, Node};
use crate::converter::JsonConverter;
use crate::converter::json_text::{NonBmp, write_string};
use crate::{Decimal, Value};

/// Maximum nesting depth of a value.
const DEPTH_MAX: usize = 64;

/// Maximum number of values in a record. A limit is needed because some values take no bytes.
const VALUES_MAX: usize = 10_000_000;

/// A value that does not match its schema.
struct Malformed;

/// Returns a value as JSON.
pub(super) fn json(schema: &AvroSchema, body: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut reader = Reader { schema, rest: body, out: Vec::new(), left: VALUES_MAX };
    match reader.root() {
        Ok(()) if reader.rest.is_empty() => Ok(reader.out),
        _ => Err(DecodeError::Malformed("AVRO")),
    }
}

struct Reader<'s, 'b> {
    schema: &'s AvroSchema,
    rest: &'b [u8],
    out: Vec<u8>,
    left: usize,
}

impl<'s, 'b> Reader<'s, 'b> {
    /// Reads the whole value. Bytes at the top level have no length prefix.
    fn root(&mut self) -> Result<(), Malformed> {
        match &self.schema.root {
            Node::Bytes => {
                let bytes = std::mem::take(&mut self.rest);
                self.scalar(&Value::Bytes(bytes.into()))
            }
            Node::Decimal { scale, size: None } => {
                let bytes = std::mem::take(&mut self.rest);
                self.decimal(bytes, *scale)
            }
            node => self.node(node, 0),
        }
    }

    fn node(&mut self, node: &'s Node, depth: usize) -> Result<(), Malformed> {
        self.left = self.left.checked_sub(1).filter(|_| depth < DEPTH_MAX).ok_or(Malformed)?;
        let depth = depth.saturating_add(1);
        match node {
            Node::Null => self.scalar(&Value::Null),
            Node::Boolean => match self.take(1)? {
                [0] => self.scalar(&Value::Bool(false)),
                [1] => self.scalar(&Value::Bool(true)),
                _ => Err(Malformed),
            },
            Node::Integer => {
                let number = self.long()?;
                self.scalar(&Value::Int64(number))
            }
            Node::Float => {
                let bytes = self.array()?;
                self.scalar(&Value::Float32(f32::from_le_bytes(bytes)))
            }
            Node::Double => {
                let bytes = self.array()?;
                self.scalar(&Value::Float64(f64::from_le_bytes(bytes)))
            }
            Node::Bytes => {
                let bytes = self.sized()?;
                self.scalar(&Value::Bytes(bytes.into()))
            }
            Node::String => self.text(),
            Node::Fixed(size) => {
                let bytes = self.take(*size)?;
                self.scalar(&Value::Bytes(bytes.into()))
            }
            Node::Decimal { scale, size } => {
                let bytes = match size {
                    Some(size) => self.take(*size)?,
                    None => self.sized()?,
                };
                self.decimal(bytes, *scale)
            }
            Node::Enum(symbols) => {
                let symbol = self.choose(symbols)?;
                write_string(&mut self.out, symbol, NonBmp::Raw);
                Ok(())
            }
            Node::Union(branches) => {
                let branch = self.choose(branches)?;
                self.node(branch, depth)
            }
            Node::Array(items) => self.blocks(*b"[]", |reader| reader.node(items, depth)),
            Node::Map(values) => self.blocks(*b"{}", |reader| {
                reader.text()?;
                reader.out.push(b':');
                reader.node(values, depth)
            }),
            Node::Record(number) => self.record(*number, depth),
            Node::Entry(number) => self.entry(*number, depth),
        }
    }

    fn record(&mut self, number: usize, depth: usize) -> Result<(), Malformed> {
        self.out.push(b'{');
        for (index, field) in self.schema.records.get(number).ok_or(Malformed)?.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            self.out.extend_from_slice(&field.label);
            self.out.push(b':');
            self.node(&field.node, depth)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    /// Reads a map entry and appends it as `JsonConverter` does.
    fn entry(&mut self, number: usize, depth: usize) -> Result<(), Malformed> {
        let [key, value] = self.schema.records.get(number).map_or(&[][..], Vec::as_slice) else {
            return Err(Malformed);
        };
        self.out.push(b'[');
        self.node(&key.node, depth)?;
        self.out.push(b',');
        self.node(&value.node, depth)?;
        self.out.push(b']');
        Ok(())
    }

    /// Reads blocks, each a count and that number of items, until an empty block. A negative count is followed by a length in
    /// bytes.
    fn blocks(
        &mut self,
        [open, close]: [u8; 2],
        mut item: impl FnMut(&mut Self) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        self.out.push(open);
        let mut is_first = true;
        loop {
            let count = self.long()?;
            if count == 0 {
                break;
            }
            if count < 0 {
                self.long()?;
            }
            for _ in 0..count.unsigned_abs() {
                if !std::mem::take(&mut is_first) {
                    self.out.push(b',');
                }
                item(self)?;
            }
        }
        self.out.push(close);
        Ok(())
    }

    fn scalar(&mut self, value: &Value<'_>) -> Result<(), Malformed> {
        JsonConverter::NUMERIC.write(&mut self.out, None, value).map_err(|_| Malformed)
    }

    fn decimal(&mut self, bytes: &[u8], scale: i32) -> Result<(), Malformed> {
        let number = Decimal::from_unscaled_bytes(bytes, scale).ok_or(Malformed)?;
        self.scalar(&Value::Decimal(number))
    }

    fn text(&mut self) -> Result<(), Malformed> {
        let text = std::str::from_utf8(self.sized()?).map_err(|_| Malformed)?;
        write_string(&mut self.out, text, NonBmp::Raw);
        Ok(())
    }

    fn choose<'c, T>(&mut self, choices: &'c [T]) -> Result<&'c T, Malformed> {
        let index = usize::try_from(self.long()?).map_err(|_| Malformed)?;
        choices.get(index).ok_or(Malformed)
    }

    fn sized(&mut self) -> Result<&'b [u8], Malformed> {
        let length = usize::try_from(self.long()?).map_err(|_| Malformed)?;
        self.take(length)
    }

    fn take(&mut self, length: usize) -> Result<&'b [u8], Malformed> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    /// Reads a number in zigzag encoding, seven bits per byte, the lowest first.
    fn long(&mut self) -> Result<i64, Malformed> {
        let mut number = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                let half = (number >> 1).cast_signed();
                return Ok(if number & 1 == 0 { half } else { !half });
            }
        }
        Err(Malformed)
    }
}
