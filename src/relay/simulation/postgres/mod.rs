//! The model of PostgreSQL: catalog, WAL, slot and walsender.

pub(super) mod catalog;
pub(super) mod ddl;
pub(super) mod server;
pub(super) mod slot;
pub(super) mod wal;
