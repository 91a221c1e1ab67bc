//! Options of the relay's features: guarantees, routing, snapshots, signals.

pub(super) mod cleanup;
pub(super) mod converters;
pub(super) mod dead_letters;
pub(super) mod guarantee;
pub(super) mod left_out;
pub(super) mod metric_tags;
pub(super) mod offset;
pub(super) mod position;
pub(super) mod router;
pub(super) mod signals;
pub(super) mod snapshot;
