//! Commands that change something.

pub(super) mod cleanup;
pub(super) mod dlq;
pub(super) mod inbox;
pub(super) mod init;
pub(super) mod migrate;
pub(super) mod relocate;
pub(super) mod signal;
pub(super) mod slot;
