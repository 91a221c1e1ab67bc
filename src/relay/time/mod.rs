//! Clock and pauses.

pub(super) mod backoff;
pub(super) mod clock;
pub(super) mod delay;
pub(super) mod liveness;
