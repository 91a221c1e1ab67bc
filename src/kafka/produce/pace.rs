//! The choice between sending records immediately and in bulk.

/// Number of records in flight above which sending each immediately costs more than waiting for a batch.
const PROMPT_RECORDS_MAX: usize = 64;

/// Way of sending for a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pace {
    /// Caught up: every record is sent immediately.
    #[default]
    Prompt,
    /// Nothing is sent until nothing is in flight, then in bulk.
    ToBulk,
    /// Behind: records wait a moment for company.
    Bulk,
}

impl Pace {
    /// Returns the pace with this number of records in flight, when the source has (`behind`) or has not much
    /// more. It changes the way of sending only when nothing is in flight, so that one key's records never
    /// overtake each other.
    #[must_use]
    pub const fn next(self, inflight: usize, behind: bool) -> Self {
        match (self, inflight, behind) {
            (Self::Prompt | Self::ToBulk, 0, true) | (Self::ToBulk, 0, false) => Self::Bulk,
            (Self::Prompt, PROMPT_RECORDS_MAX.., _) => Self::ToBulk,
            (Self::Bulk, 0, false) => Self::Prompt,
            (pace, _, _) => pace,
        }
    }

    /// Returns whether a record may be sent now.
    #[must_use]
    pub const fn allows_sending(self) -> bool {
        !matches!(self, Self::ToBulk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_way_of_sending_changes_only_while_nothing_is_in_flight(
            turns in prop::collection::vec((0usize..200, any::<bool>()), 0..500),
        ) {
            let mut pace = Pace::default();
            let mut last_sent_in = Pace::Prompt;
            for (inflight, behind) in turns {
                pace = pace.next(inflight, behind);
                if pace.allows_sending() {
                    prop_assert!(pace == last_sent_in || inflight == 0);
                    last_sent_in = pace;
                }
            }
        }
    }

    #[test]
    fn a_backlog_goes_in_bulk_and_its_end_brings_back_promptness() {
        use Pace::{Bulk, Prompt, ToBulk};
        let turns = [
            (1, false, Prompt),
            (63, true, Prompt),
            (64, true, ToBulk),
            (10, true, ToBulk),
            (0, true, Bulk),
            (5_000, true, Bulk),
            (0, true, Bulk),
            (700, false, Bulk),
            (0, false, Prompt),
            (0, true, Bulk),
        ];
        let mut pace = Pace::default();
        for (inflight, behind, expected) in turns {
            pace = pace.next(inflight, behind);
            assert_eq!(pace, expected, "{inflight} in flight, behind: {behind}");
        }
    }
}
