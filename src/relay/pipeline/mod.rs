//! A message in, records out, an LSN back; without sockets and clocks.

pub(super) mod core;
pub(super) mod feed;
pub(super) mod heartbeat;
pub(super) mod notifier;
pub(super) mod signals;
pub(super) mod slot_xmin;
