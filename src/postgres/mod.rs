//! PostgreSQL: one replication connection of our own, one SQL connection of tokio-postgres.

mod catalog;
mod columns;
mod connection;
mod error;
mod login;
mod options;
mod publication;
mod relations;
mod slot;
mod snapshot;
mod socket;
mod sql;
mod stream;
mod tables;
mod tls;
mod versions;

pub use catalog::{Moment, PublicationFacts, ServerFacts, SlotFacts, TableFacts};
pub use connection::{Connection, Rows, TlsSetup};
pub use error::{Error, SlotHolder};
pub use options::*;
pub use publication::Publication;
pub use relations::{NamedTable, RelationFacts};
pub use slot::{Slot, SnapshotSlot};
pub use snapshot::{SnapshotReader, SnapshotRow};
pub use sql::Sql;
pub use stream::ReplicationStream;
pub use tables::TableFilter;
pub use versions::{FoundTable, Member, PublicationVersion, SchemaMember, Storage, TableVersion};
