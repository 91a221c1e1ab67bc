//! The table of known keys: defaults, ranges, status.

pub(super) mod check;
#[cfg(test)]
pub(super) mod compatibility;
pub(super) mod defaults;
#[cfg(test)]
pub(super) mod documented;
pub(super) mod keys;
