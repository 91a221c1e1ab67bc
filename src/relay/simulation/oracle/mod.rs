//! What was committed, and with it the checks of all that the relay sends and confirms.

mod identities;
pub(super) mod truth;
