//! From servers to the oracle: what was committed, what the promises allow, and whether `outboxd verify` agrees.

pub(crate) mod agreement;
pub(crate) mod evidence;
pub(crate) mod promises;
