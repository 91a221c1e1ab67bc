//! History that LSNs belong to.

use crate::wal::{SystemId, TimelineId};

/// History that LSNs belong to. Positions of different origins must not be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) system_id: SystemId,
    pub(super) timeline: TimelineId,
}
