//! Captured tables, and the catalog's view of them and of the server.

pub(super) mod captured;
pub(super) mod hypertables;
pub(super) mod lookout;
pub(super) mod newcomers;
pub(super) mod preflight;
pub(super) mod publication_guard;
pub(super) mod resolution;
pub(super) mod resolver;
pub(super) mod route;
pub(super) mod selected;
pub(super) mod standby;
pub(super) mod table;
