//! Descriptions of tables in the stream.

use std::collections::HashMap;
use std::sync::Arc;

use crate::wal::Oid;
use crate::wire::{DecodeError, Reader, Shortage};

/// Columns of the old row that an UPDATE or DELETE includes (`pg_class.relreplident`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaIdentity {
    /// The primary key.
    Default,
    /// No columns.
    Nothing,
    /// All columns.
    Full,
    /// The columns of a chosen index.
    Index,
}

/// A column of a relation, as the `Relation` message describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The column's name.
    pub name: String,
    /// The column's type.
    pub type_oid: Oid,
    /// Modifier of the type (`atttypmod`), or -1 without one.
    pub type_modifier: i32,
    /// Membership in the replica identity.
    pub in_identity: bool,
}

/// Definition of a table when the following rows were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relation {
    /// Object id of the table, or of the root table with `publish_via_partition_root`.
    pub oid: Oid,
    /// The schema's name.
    pub schema: String,
    /// The table's name.
    pub table: String,
    /// Columns of old rows.
    pub replica_identity: ReplicaIdentity,
    /// Published columns, in the order of the row values.
    pub columns: Vec<Column>,
}

/// A row of a relation that was not described on this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a row refers to relation {0}, which was not described on this connection")]
pub struct UnknownRelation(pub Oid);

/// Relations described on one connection. A new description replaces the old one.
#[derive(Debug, Default)]
pub struct RelationCache(HashMap<Oid, Arc<Relation>>);

impl Relation {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let oid = Oid(reader.u32()?);
        let schema = match reader.cstr()? {
            "" => "pg_catalog".to_owned(),
            schema => schema.to_owned(),
        };
        let table = reader.cstr()?.to_owned();
        let replica_identity = ReplicaIdentity::read(reader)?;
        let count = usize::from(reader.u16()?);
        let mut columns = Vec::with_capacity(count.min(reader.left()));
        for _ in 0..count {
            columns.push(Column::read(reader)?);
        }
        Ok(Self { oid, schema, table, replica_identity, columns })
    }
}

impl ReplicaIdentity {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = reader.clone();
        Ok(match reader.u8()? {
            b'd' => Self::Default,
            b'n' => Self::Nothing,
            b'f' => Self::Full,
            b'i' => Self::Index,
            other => return Err(at.error(Shortage::UnknownTag(other))),
        })
    }
}

impl Column {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let flags = reader.u8()?;
        let name = reader.cstr()?.to_owned();
        let type_oid = Oid(reader.u32()?);
        let type_modifier = reader.i32()?;
        Ok(Self { name, type_oid, type_modifier, in_identity: flags & 1 == 1 })
    }
}

impl RelationCache {
    /// Stores a description and returns its shared form.
    pub fn insert(&mut self, relation: Relation) -> Arc<Relation> {
        let relation = Arc::new(relation);
        self.0.insert(relation.oid, Arc::clone(&relation));
        relation
    }

    /// Returns the relation that a row refers to.
    ///
    /// # Errors
    /// When the relation was not described on this connection.
    pub fn lookup(&self, oid: Oid) -> Result<&Arc<Relation>, UnknownRelation> {
        self.0.get(&oid).ok_or(UnknownRelation(oid))
    }
}
