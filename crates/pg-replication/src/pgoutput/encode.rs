//! Encoding of a [`Message`] as PostgreSQL sends it, for tests.

#![expect(clippy::unwrap_used, reason = "the counts and lengths of a test's messages fit")]

use bytes::BufMut;

use super::{Column, ColumnValue, LogicalMessage, Message, OldTuple, Relation, ReplicaIdentity, Tuple};
use crate::wal::Oid;

/// Returns the bytes of `message` in pgoutput's format.
pub fn encode(message: &Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    match message {
        Message::Begin(begin) => {
            out.put_u8(b'B');
            out.put_u64(begin.final_lsn.get());
            out.put_i64(begin.commit_time.0);
            out.put_u32(begin.xid.0);
        }
        Message::Commit(commit) => {
            // The flags, which are unused in protocol version 1.
            out.put_slice(&[b'C', 0]);
            out.put_u64(commit.commit_lsn.get());
            out.put_u64(commit.end_lsn.get());
            out.put_i64(commit.commit_time.0);
        }
        Message::Origin { lsn, name } => {
            out.put_u8(b'O');
            out.put_u64(lsn.get());
            cstr(name, &mut out);
        }
        Message::Relation(described) => relation(described, &mut out),
        Message::Type { oid, schema, name } => {
            tagged(b'Y', *oid, &mut out);
            cstr(schema, &mut out);
            cstr(name, &mut out);
        }
        Message::Insert { relation, new } => {
            tagged(b'I', *relation, &mut out);
            tuple(b'N', new, &mut out);
        }
        Message::Update { relation, old, new } => {
            tagged(b'U', *relation, &mut out);
            if let Some(old) = old {
                old_tuple(old, &mut out);
            }
            tuple(b'N', new, &mut out);
        }
        Message::Delete { relation, old } => {
            tagged(b'D', *relation, &mut out);
            old_tuple(old, &mut out);
        }
        Message::Truncate { relations, cascade, restart_identity } => {
            out.put_u8(b'T');
            out.put_u32(u32::try_from(relations.len()).unwrap());
            out.put_u8(u8::from(*cascade) | u8::from(*restart_identity) << 1);
            relations.iter().for_each(|oid| out.put_u32(oid.0));
        }
        Message::LogicalMessage(message) => logical_message(message, &mut out),
    }
    out
}

fn relation(relation: &Relation, out: &mut Vec<u8>) {
    tagged(b'R', relation.oid, out);
    cstr(if relation.schema == "pg_catalog" { "" } else { &relation.schema }, out);
    cstr(&relation.table, out);
    out.put_u8(match relation.replica_identity {
        ReplicaIdentity::Default => b'd',
        ReplicaIdentity::Nothing => b'n',
        ReplicaIdentity::Full => b'f',
        ReplicaIdentity::Index => b'i',
    });
    out.put_u16(u16::try_from(relation.columns.len()).unwrap());
    for Column { name, type_oid, type_modifier, in_identity } in &relation.columns {
        out.put_u8(u8::from(*in_identity));
        cstr(name, out);
        out.put_u32(type_oid.0);
        out.put_i32(*type_modifier);
    }
}

fn logical_message(message: &LogicalMessage<'_>, out: &mut Vec<u8>) {
    out.put_slice(&[b'M', u8::from(message.transactional)]);
    out.put_u64(message.lsn.get());
    cstr(message.prefix, out);
    sized(message.content, out);
}

fn old_tuple(old: &OldTuple<'_>, out: &mut Vec<u8>) {
    match old {
        OldTuple::Key(key) => tuple(b'K', key, out),
        OldTuple::Full(row) => tuple(b'O', row, out),
    }
}

fn tuple(tag: u8, tuple: &Tuple<'_>, out: &mut Vec<u8>) {
    out.put_u8(tag);
    out.put_u16(u16::try_from(tuple.columns().len()).unwrap());
    for column in tuple.columns() {
        match column {
            ColumnValue::Null => out.put_u8(b'n'),
            ColumnValue::UnchangedToast => out.put_u8(b'u'),
            ColumnValue::Text(text) => {
                out.put_u8(b't');
                sized(text, out);
            }
            ColumnValue::Binary(bytes) => {
                out.put_u8(b'b');
                sized(bytes, out);
            }
        }
    }
}

fn tagged(tag: u8, oid: Oid, out: &mut Vec<u8>) {
    out.put_u8(tag);
    out.put_u32(oid.0);
}

fn sized(bytes: &[u8], out: &mut Vec<u8>) {
    out.put_u32(u32::try_from(bytes.len()).unwrap());
    out.put_slice(bytes);
}

fn cstr(text: &str, out: &mut Vec<u8>) {
    out.put_slice(text.as_bytes());
    out.put_u8(0);
}
