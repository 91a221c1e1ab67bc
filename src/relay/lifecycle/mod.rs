//! The lifecycle of a relay: start, take-over, stream, drain, end.

pub(super) mod control;
pub(super) mod link;
pub(super) mod memory;
pub(super) mod next_start;
pub(super) mod opening;
pub(super) mod order;
pub(super) mod retry;
pub(super) mod session;
pub(super) mod slot_judge;
pub(super) mod slot_start;
pub(super) mod snapshot_start;
pub(super) mod snapshots_left;
pub(super) mod supervisor;
pub(super) mod takeover;
