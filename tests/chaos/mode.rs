//! Promises about repeats.

use crate::faults::Fault;

/// `outboxd.delivery.guarantee`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Unconfirmed records are sent again.
    AtLeastOnce,
    /// Records that are in the topics already are not sent again.
    TailDedupe,
    /// Kafka's transactions, for consumers that read what is committed.
    ExactlyOnce,
}

/// All, by their names.
pub(crate) const MODES: [(&str, Mode); 3] = [
    ("at_least_once", Mode::AtLeastOnce),
    ("tail_dedupe", Mode::TailDedupe),
    ("exactly_once", Mode::ExactlyOnce),
];

/// Those that this outboxd has.
pub(crate) const AVAILABLE: [Mode; 3] = [Mode::AtLeastOnce, Mode::TailDedupe, Mode::ExactlyOnce];

impl Mode {
    pub(crate) const fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::AtLeastOnce => &[],
            Self::TailDedupe => &[("outboxd.delivery.guarantee", "tail_dedupe")],
            Self::ExactlyOnce => &[("outboxd.delivery.guarantee", "exactly_once")],
        }
    }

    /// Returns the values of `outboxd.inflight.records.max` from which a seed chooses one. It bounds a Kafka
    /// transaction too: with 50 records in each, two cores that also run the servers are slower than the load.
    pub(crate) const fn windows(self) -> [u32; 3] {
        match self {
            Self::AtLeastOnce | Self::TailDedupe => [50, 500, 3500],
            Self::ExactlyOnce => [200, 500, 3500],
        }
    }

    /// Returns whether consumers may see a repeat during these faults. A stop without another fault repeats nothing in
    /// any mode. A relay that was replaced while it was paused still sends the records that it has in flight, which
    /// only a transaction prevents.
    pub(crate) fn may_repeat(self, faults: &[Fault]) -> bool {
        match self {
            Self::AtLeastOnce => !matches!(faults, [] | [Fault::RelayStopped]),
            Self::TailDedupe => faults.contains(&Fault::RelayReplaced),
            Self::ExactlyOnce => false,
        }
    }
}
