//! Messages of pgoutput.

use super::{Relation, Tuple};
use crate::wal::{Lsn, Oid, PgTimestamp, Xid};
use crate::wire::{DecodeError, Reader, Shortage};

/// Start of a transaction. pgoutput sends it only after the transaction has committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begin {
    /// LSN of the transaction's commit record.
    pub final_lsn: Lsn,
    /// Commit time.
    pub commit_time: PgTimestamp,
    /// Transaction id.
    pub xid: Xid,
}

/// End of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// LSN of the commit record; equal to [`Begin::final_lsn`].
    pub commit_lsn: Lsn,
    /// First byte after the commit record. Confirming it confirms this transaction and all before it.
    pub end_lsn: Lsn,
    /// Commit time.
    pub commit_time: PgTimestamp,
}

/// A message of `pg_logical_emit_message`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogicalMessage<'a> {
    /// Membership in the surrounding transaction; a transactional message is discarded on rollback.
    pub transactional: bool,
    /// Position of the message.
    pub lsn: Lsn,
    /// Prefix of the message.
    pub prefix: &'a str,
    /// Content of the message.
    pub content: &'a [u8],
}

/// Old row of an UPDATE or DELETE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OldTuple<'a> {
    /// The columns of the replica identity; the others are NULL.
    Key(Tuple<'a>),
    /// The whole row (`REPLICA IDENTITY FULL`).
    Full(Tuple<'a>),
}

/// One pgoutput message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'a> {
    /// `B`
    Begin(Begin),
    /// `C`
    Commit(Commit),
    /// `O`: the transaction was replicated into this database from another server.
    Origin {
        /// LSN of the commit on the origin.
        lsn: Lsn,
        /// Name of the origin.
        name: &'a str,
    },
    /// `R`
    Relation(Relation),
    /// `Y`: a type that is not built in.
    Type {
        /// Object id of the type.
        oid: Oid,
        /// Schema of the type; empty for `pg_catalog`.
        schema: &'a str,
        /// Name of the type.
        name: &'a str,
    },
    /// `I`
    Insert {
        /// The table.
        relation: Oid,
        /// The new row.
        new: Tuple<'a>,
    },
    /// `U`
    Update {
        /// The table.
        relation: Oid,
        /// Old row, if it was sent.
        old: Option<Box<OldTuple<'a>>>,
        /// The new row.
        new: Tuple<'a>,
    },
    /// `D`
    Delete {
        /// The table.
        relation: Oid,
        /// Old row, or its key.
        old: OldTuple<'a>,
    },
    /// `T`
    Truncate {
        /// The tables.
        relations: Vec<Oid>,
        /// `CASCADE` was given.
        cascade: bool,
        /// `RESTART IDENTITY` was given.
        restart_identity: bool,
    },
    /// `M`
    LogicalMessage(LogicalMessage<'a>),
}

/// Decodes the payload of one XLogData.
///
/// # Errors
/// When the tag is unknown, a field is truncated or invalid, or bytes are left over. The rest of the stream cannot be decoded
/// then.
pub fn decode(body: &[u8]) -> Result<Message<'_>, DecodeError> {
    let mut reader = Reader::new("pgoutput", body);
    let at = reader.clone();
    let message = match reader.u8()? {
        b'B' => named(&mut reader, "Begin", begin),
        b'C' => named(&mut reader, "Commit", commit),
        b'O' => named(&mut reader, "Origin", origin),
        b'R' => named(&mut reader, "Relation", |r| Relation::read(r).map(Message::Relation)),
        b'Y' => named(&mut reader, "Type", type_),
        b'I' => named(&mut reader, "Insert", insert),
        b'U' => named(&mut reader, "Update", update),
        b'D' => named(&mut reader, "Delete", delete),
        b'T' => named(&mut reader, "Truncate", truncate),
        b'M' => named(&mut reader, "Message", logical_message),
        other => Err(at.error(Shortage::UnknownTag(other))),
    }?;
    reader.end()?;
    Ok(message)
}

fn named<'a, T>(
    reader: &mut Reader<'a>,
    name: &'static str,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    reader.name(name);
    read(reader)
}

fn begin<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    Ok(Message::Begin(Begin {
        final_lsn: Lsn::new(reader.u64()?),
        commit_time: PgTimestamp(reader.i64()?),
        xid: Xid(reader.u32()?),
    }))
}

fn commit<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    let _flags = reader.u8()?;
    Ok(Message::Commit(Commit {
        commit_lsn: Lsn::new(reader.u64()?),
        end_lsn: Lsn::new(reader.u64()?),
        commit_time: PgTimestamp(reader.i64()?),
    }))
}

fn origin<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    Ok(Message::Origin { lsn: Lsn::new(reader.u64()?), name: reader.cstr()? })
}

fn type_<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    Ok(Message::Type { oid: Oid(reader.u32()?), schema: reader.cstr()?, name: reader.cstr()? })
}

fn insert<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    let relation = Oid(reader.u32()?);
    expect_tag(reader, b'N')?;
    Ok(Message::Insert { relation, new: Tuple::read(reader)? })
}

fn update<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    let relation = Oid(reader.u32()?);
    let at = reader.clone();
    let old = match reader.u8()? {
        b'N' => return Ok(Message::Update { relation, old: None, new: Tuple::read(reader)? }),
        b'K' => OldTuple::Key(Tuple::read(reader)?),
        b'O' => OldTuple::Full(Tuple::read(reader)?),
        other => return Err(at.error(Shortage::UnknownTag(other))),
    };
    expect_tag(reader, b'N')?;
    Ok(Message::Update { relation, old: Some(Box::new(old)), new: Tuple::read(reader)? })
}

fn delete<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    let relation = Oid(reader.u32()?);
    let at = reader.clone();
    let old = match reader.u8()? {
        b'K' => OldTuple::Key(Tuple::read(reader)?),
        b'O' => OldTuple::Full(Tuple::read(reader)?),
        other => return Err(at.error(Shortage::UnknownTag(other))),
    };
    Ok(Message::Delete { relation, old })
}

fn truncate<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    let count = reader.length()?;
    let flags = reader.u8()?;
    let mut relations = Vec::with_capacity(count.min(reader.left() / size_of::<u32>()));
    for _ in 0..count {
        relations.push(Oid(reader.u32()?));
    }
    Ok(Message::Truncate { relations, cascade: flags & 1 != 0, restart_identity: flags & 2 != 0 })
}

fn logical_message<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    let transactional = reader.u8()? & 1 == 1;
    let lsn = Lsn::new(reader.u64()?);
    let prefix = reader.cstr()?;
    let length = reader.length()?;
    let content = reader.bytes(length)?;
    Ok(Message::LogicalMessage(LogicalMessage { transactional, lsn, prefix, content }))
}

fn expect_tag(reader: &mut Reader<'_>, tag: u8) -> Result<(), DecodeError> {
    let at = reader.clone();
    match reader.u8()? {
        found if found == tag => Ok(()),
        other => Err(at.error(Shortage::UnknownTag(other))),
    }
}
