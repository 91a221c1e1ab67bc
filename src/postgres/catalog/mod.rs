//! Queries of the catalog and changes of it: tables, columns, privileges, the publication, versions of all of these.

mod columns;
pub(super) mod facts;
pub(super) mod grants;
pub(super) mod handover;
pub(super) mod identities;
pub(super) mod publication;
pub(super) mod relations;
pub(super) mod tables;
pub(super) mod timescale;
pub(super) mod versions;
