//! Where a message stands in its file: the first thing behind the schema's id.

use super::message::Message;
use super::names::{full_name, said};
use super::wire::put_varint;
use super::{ProtobufOptions, SchemaError};
use crate::connect::Schema;

/// Appends the indexes of the message that a schema is: it is the first of its file.
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

/// Whether no part of the package is named as the message, which is found out for each value.
fn is_first_by_its_name(schema: &Schema, options: ProtobufOptions) -> bool {
    let Some(name) = said(schema) else { return true };
    let Some((package, simple)) = name.rsplit_once('.') else { return true };
    !options.scrub && !simple.is_empty() && package.split('.').all(|part| part != simple)
}

/// The converter looks for every part of the name, also for those of the package.
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

/// Their number and each of them; a single 0 is written for the first message.
pub(super) fn write(out: &mut Vec<u8>, indexes: &[usize]) {
    if indexes == [0] {
        return out.push(0);
    }
    put_signed(out, indexes.len());
    for index in indexes {
        put_signed(out, *index);
    }
}

/// In zigzag, as Kafka's varints are.
fn put_signed(out: &mut Vec<u8>, number: usize) {
    put_varint(out, u64::try_from(number).unwrap_or(u64::MAX).saturating_mul(2));
}
