//! Position of a message in its file: the first data after the schema's id.

use super::message::Message;
use super::names::{full_name, said};
use super::wire::put_varint;
use super::{ProtobufOptions, SchemaError};
use crate::Schema;

/// Appends the indexes of a schema's message, which is the first of its file.
pub(super) fn write_of(
    out: &mut Vec<u8>,
    schema: &Schema,
    options: ProtobufOptions,
) -> Result<(), SchemaError> {
    if is_first_by_its_name(schema, options) {
        write(out, &[0]);
        return Ok(());
    }
    let (message, _) = Message::of(schema, options)?;
    write(out, &looked_up(&message, &full_name(schema, options).qualified()));
    Ok(())
}

/// Reports whether no part of the package has the message's name. This check runs for each value.
fn is_first_by_its_name(schema: &Schema, options: ProtobufOptions) -> bool {
    let Some(name) = said(schema) else { return true };
    let Some((package, simple)) = name.rsplit_once('.') else { return true };
    !options.scrub && !simple.is_empty() && package.split('.').all(|part| part != simple)
}

/// Returns the indexes that the converter finds. It looks up every part of the full name, including the package.
fn looked_up(root: &Message, name: &str) -> Vec<usize> {
    let mut indexes = Vec::new();
    let mut messages = std::slice::from_ref(root);
    for part in name.split('.') {
        if let Some(index) = messages.iter().position(|message| message.name == part) {
            indexes.push(index);
            messages = messages.get(index).map_or(&[], |message| &message.nested);
        }
    }
    indexes
}

/// Appends the number of indexes and each of them, or a single 0 for the first message.
pub(super) fn write(out: &mut Vec<u8>, indexes: &[usize]) {
    if indexes == [0] {
        return out.push(0);
    }
    put_signed(out, indexes.len());
    for index in indexes {
        put_signed(out, *index);
    }
}

/// Appends a number in zigzag encoding, as in Kafka's varints.
fn put_signed(out: &mut Vec<u8>, number: usize) {
    put_varint(out, u64::try_from(number).unwrap_or(u64::MAX).saturating_mul(2));
}
