/// More records than this in flight mean that sending each at once costs more than waiting for company.
const PROMPT_RECORDS_MAX: usize = 64;

/// Which way of sending the load asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pace {
    /// Caught up: every record is sent at once.
    #[default]
    Prompt,
    /// Falling behind: nothing is sent until nothing is in flight, then in bulk.
    Changing,
    /// Behind: records wait a moment for company.
    Bulk,
}

impl Pace {
    /// The pace with so many records in flight. It changes the way of sending only when there are none, so that one
    /// key's records never overtake each other.
    #[must_use]
    pub const fn with_inflight(self, inflight: usize) -> Self {
        match (self, inflight) {
            (Self::Prompt, PROMPT_RECORDS_MAX..) => Self::Changing,
            (Self::Changing, 0) => Self::Bulk,
            (Self::Bulk, 0) => Self::Prompt,
            (pace, _) => pace,
        }
    }

    /// Whether a record may be sent now.
    #[must_use]
    pub const fn allows_sending(self) -> bool {
        !matches!(self, Self::Changing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_way_of_sending_changes_only_while_nothing_is_in_flight(inflight in prop::collection::vec(0usize..200, 0..500)) {
            let mut pace = Pace::default();
            let mut last_sent_in = Pace::Prompt;
            for inflight in inflight {
                pace = pace.with_inflight(inflight);
                if pace.allows_sending() {
                    prop_assert!(pace == last_sent_in || inflight == 0);
                    last_sent_in = pace;
                }
            }
        }
    }

    #[test]
    fn a_backlog_goes_in_bulk_and_its_end_brings_back_promptness() {
        let seen: Vec<_> = [1, 63, 64, 10, 0, 5_000, 1, 0, 1]
            .iter()
            .scan(Pace::default(), |pace, inflight| {
                *pace = pace.with_inflight(*inflight);
                Some(*pace)
            })
            .collect();
        use Pace::{Bulk, Changing, Prompt};
        assert_eq!(seen, [Prompt, Prompt, Changing, Changing, Bulk, Bulk, Bulk, Prompt, Prompt]);
    }
}
