//! Commands that verify: that a start would work, that no row is missing.

pub(super) mod check;
pub(super) mod verify;
