//! Events that may have crashed a process.

use std::collections::BTreeMap;
use std::ops::Range;

/// Events at which handlers may have been when a process ended, with the number of these crashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Suspects {
    /// Offsets of which some were begun once. Those that had ended are recognized by their ids.
    maybe: Range<i64>,
    /// Number of crashes, by offset.
    begun: BTreeMap<i64, u32>,
}

impl Suspects {
    pub(crate) fn new(maybe: Range<i64>, begun: BTreeMap<i64, u32>) -> Self {
        Self { maybe, begun }
    }

    /// Returns the number of process crashes while a handler was at this event.
    pub(super) fn begun(&self, offset: i64) -> u32 {
        self.begun.get(&offset).copied().unwrap_or_else(|| u32::from(self.maybe.contains(&offset)))
    }

    /// Clears the suspicion against an event: its handler has ended, so the event did not crash the process.
    pub(super) fn clear(&mut self, offset: i64) {
        if self.maybe.contains(&offset) {
            self.begun.insert(offset, 0);
        } else {
            self.begun.remove(&offset);
        }
    }

    /// Raises the number of crashes of an event to at least `begun`.
    pub(super) fn raise(&mut self, offset: i64, begun: u32) {
        if begun > self.begun(offset) {
            self.begun.insert(offset, begun);
        }
    }

    /// Removes an event that is not open any more.
    pub(super) fn end(&mut self, offset: i64) {
        self.begun.remove(&offset);
    }
}

impl Default for Suspects {
    fn default() -> Self {
        Self::new(0..0, BTreeMap::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_suspected_until_its_handler_has_ended() {
        let mut suspects = Suspects::new(3..6, BTreeMap::from([(4, 2), (8, 1)]));
        let begun = |suspects: &Suspects| (2..9).map(|offset| suspects.begun(offset)).collect::<Vec<_>>();
        assert_eq!(begun(&suspects), [0, 1, 2, 1, 0, 0, 1]);
        [3, 4, 8].into_iter().for_each(|offset| suspects.clear(offset));
        assert_eq!(begun(&suspects), [0, 0, 0, 1, 0, 0, 0]);
    }
}
