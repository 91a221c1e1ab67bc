//! Topics with the relay's own state: positions, offsets, dead letters' states, signals.

pub(super) mod compacted_topic;
pub(super) mod dead_letter_states;
pub(super) mod offset_topic;
pub(super) mod position_topic;
pub(super) mod signal_topic;
pub(super) mod state_topic;
mod value_producer;
