//! Steps of a start: up to the stream, and from there to the first row.

pub(super) mod capture;
pub(super) mod opening;
pub(super) mod refusal;
pub(super) mod tails;
pub(super) mod takeover;
