//! Read-only commands that show state.

pub(super) mod config;
pub(super) mod debug;
pub(super) mod explain;
pub(super) mod health;
pub(super) mod status;
pub(super) mod tail;
pub(super) mod top;
