//! The position, its storage, and its comparison at a start.

pub(super) mod acknowledged;
pub(super) mod comparison;
pub(super) mod last_state;
pub(super) mod offset_file;
pub(super) mod offsets;
pub(super) mod position;
pub(super) mod position_store;
