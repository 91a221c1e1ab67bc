//! PostgreSQL: one replication connection of our own, one SQL connection of tokio-postgres.

mod catalog;
mod chunk;
mod columns;
mod connection;
mod error;
mod grants;
mod handover;
mod identities;
mod login;
mod options;
mod pages;
mod publication;
mod relations;
mod resting;
mod row_batch;
mod slot;
mod slot_wait;
mod snapshot;
mod socket;
mod sql;
mod stream;
mod tables;
mod timescale;
mod tls;
mod versions;

pub(crate) use catalog::{PublicationFacts, ServerFacts, SlotFacts, TableFacts};
pub(crate) use chunk::{ChunkConnection, ChunkQuery, OrderColumn};
pub use connection::{Connection, TlsSetup};
pub(crate) use error::{Error, SlotHolder};
pub(crate) use grants::Unreadable;
pub(crate) use handover::{Handover, HandoverPhase};
pub(crate) use identities::{ReplicaIdentities, ReplicaIdentityRule};
pub use options::*;
pub(crate) use pages::PageRange;
pub(crate) use publication::Publication;
#[cfg(test)]
pub(crate) use relations::NamedTable;
pub(crate) use relations::RelationFacts;
pub(crate) use row_batch::RowBatch;
pub(crate) use slot::{Slot, SnapshotSlot};
pub(crate) use snapshot::{SnapshotReader, SnapshotRow};
pub(crate) use sql::Sql;
pub use stream::ReplicationStream;
pub(crate) use tables::TableFilter;
pub(crate) use timescale::TimescaleFacts;
pub(crate) use versions::{FoundTable, Member, PublicationVersion, Storage, TableVersion};
