//! Committed events and tables, and with them the checks of all that the relay sends and confirms.

mod identities;
pub(super) mod truth;
