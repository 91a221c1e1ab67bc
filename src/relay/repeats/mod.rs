//! What makes repeats known: where each event stands in the source.

mod position_text;

use super::Options;
use crate::wal::SystemId;
pub(super) use position_text::PositionText;

/// For one session. Without it being asked for, it does nothing.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// With `outboxd.identity.headers`: what a record's header says of its event.
    pub(super) text: Option<PositionText>,
}

impl Repeats {
    /// As the options ask for.
    pub(super) fn new(options: &Options, system_id: &SystemId) -> Self {
        Self { text: options.identity_headers.then(|| PositionText::new(system_id)) }
    }
}
