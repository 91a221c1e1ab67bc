//! Rows, messages and change events that the simulation writes, and their expected records.

pub(super) mod changes;
pub(super) mod table;
