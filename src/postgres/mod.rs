//! PostgreSQL: one replication connection of our own, one SQL connection of tokio-postgres.

mod catalog;
mod connections;
mod error;
mod fixes;
mod options;
mod slot;
mod snapshot;
mod sqlstate;

pub(crate) use catalog::facts::{PublicationFacts, ServerFacts, SlotFacts, TableFacts};
pub(crate) use catalog::grants::Unreadable;
pub(crate) use catalog::handover::{Handover, HandoverPhase};
pub(crate) use catalog::identities::{ReplicaIdentities, ReplicaIdentityRule};
pub(crate) use catalog::publication::Publication;
#[cfg(test)]
pub(crate) use catalog::relations::NamedTable;
pub(crate) use catalog::relations::RelationFacts;
pub(crate) use catalog::tables::TableFilter;
pub(crate) use catalog::timescale::TimescaleFacts;
#[cfg(test)]
pub(crate) use catalog::versions::SchemaMember;
pub(crate) use catalog::versions::{FoundTable, Member, PublicationVersion, Storage, TableVersion};
pub use connections::connection::{Connection, TlsSetup};
pub(crate) use connections::peer::Peer;
pub(crate) use connections::peer::{APPLICATION, base as application_base, shown as shown_application};
pub(crate) use connections::sql::Sql;
pub use connections::stream::ReplicationStream;
pub(crate) use error::Error;
pub use options::*;
pub(crate) use slot::holder::SlotHolder;
pub(crate) use slot::{Slot, SnapshotSlot};
pub(crate) use snapshot::chunk::{CATALOG, ChunkConnection, ChunkQuery, OrderColumn};
pub(crate) use snapshot::pages::PageRange;
pub(crate) use snapshot::reader::{SnapshotReader, SnapshotRow};
pub(crate) use snapshot::row_batch::RowBatch;
pub(crate) use sqlstate::DOUBT_LASTS;
