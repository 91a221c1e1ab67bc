//! Detection of events that cannot be repeats.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::Position;

/// Detector of events that cannot be repeats, because their positions are beyond all that was read of the partition before.
///
/// Valid for one assignment. Events that came before, or while another consumer may have owned the partition, need a lookup.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    /// Greatest place of each source.
    greatest: BTreeMap<String, String>,
    is_taken: bool,
    fresh: BTreeSet<i64>,
}

impl Positions {
    /// Resets the state after the partition was taken. `greatest` holds the greatest positions that were done; `None` if every
    /// event needs a lookup.
    pub(crate) fn taken(&mut self, greatest: Option<Vec<Position>>) {
        self.is_taken = greatest.is_some();
        self.fresh.clear();
        for position in greatest.into_iter().flatten() {
            self.raise(position);
        }
    }

    /// Records the position of an event that was read.
    pub(crate) fn receive(&mut self, offset: i64, position: Position) {
        let is_beyond = self.greatest.get(&position.source).is_none_or(|greatest| *greatest < position.place);
        if is_beyond && self.is_taken {
            self.fresh.insert(offset);
        } else {
            // The same record was read again, after a commit without an answer.
            self.fresh.remove(&offset);
        }
        self.raise(position);
    }

    /// Returns whether the event that is begun cannot be a repeat. From then on it may be one.
    pub(crate) fn begin(&mut self, offset: i64) -> bool {
        self.fresh.remove(&offset)
    }

    /// Records the position of a begun event that was read from the table. Its record may be read later, and is a repeat then.
    pub(crate) fn begin_parked(&mut self, offset: i64, position: Position) {
        self.fresh.remove(&offset);
        self.raise(position);
    }

    fn raise(&mut self, position: Position) {
        let known = self.greatest.entry(position.source).or_default();
        if *known < position.place {
            *known = position.place;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(place: &str) -> Position {
        Position { source: "7".to_owned(), place: place.to_owned() }
    }

    fn receive(positions: &mut Positions, events: &[(i64, &str)]) -> Vec<i64> {
        events.iter().for_each(|(offset, place)| positions.receive(*offset, at(place)));
        events.iter().map(|(offset, _)| *offset).filter(|offset| positions.begin(*offset)).collect()
    }

    #[test]
    fn only_what_is_beyond_all_that_was_done_and_read_is_new_for_sure() {
        let mut positions = Positions::default();
        assert!(receive(&mut positions, &[(0, "B"), (1, "D")]).is_empty(), "before the partition is taken");
        positions.taken(Some(vec![at("C")]));
        assert_eq!(receive(&mut positions, &[(2, "C"), (3, "D"), (4, "E"), (5, "E"), (6, "F")]), [4, 6]);
        assert!(!positions.begin(6), "it may be done by now");
        positions.receive(7, at("G"));
        positions.taken(Some(vec![at("F")]));
        assert!(!positions.begin(7), "another consumer may have had it");
    }

    /// A consumer was killed after it had parked an event and before the offset behind it was stored.
    #[test]
    fn an_event_that_was_begun_from_the_table_is_no_new_one_when_its_record_comes() {
        let mut positions = Positions::default();
        positions.taken(Some(vec![at("C")]));
        positions.begin_parked(5, at("E"));
        assert_eq!(receive(&mut positions, &[(4, "D"), (5, "E"), (6, "F")]), [6]);
        positions.receive(7, at("G"));
        positions.begin_parked(7, at("G"));
        assert!(!positions.begin(7));
    }
}
