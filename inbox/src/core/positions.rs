use std::collections::{BTreeMap, BTreeSet};

use crate::event::Position;

/// Which events of a partition cannot be repeats, because they stand beyond everything that was read of it before.
///
/// It holds for one assignment. Whatever has come before, or at a time when another consumer may have had the partition,
/// is looked up.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    /// By source, the greatest place.
    greatest: BTreeMap<String, String>,
    is_taken: bool,
    fresh: BTreeSet<i64>,
}

impl Positions {
    /// The partition is this consumer's, and this is the greatest that was done of it. `None` when everything is to be looked
    /// up.
    pub(crate) fn taken(&mut self, greatest: Option<Vec<Position>>) {
        self.is_taken = greatest.is_some();
        self.fresh.clear();
        for position in greatest.into_iter().flatten() {
            self.raise(position);
        }
    }

    /// An event was read.
    pub(crate) fn receive(&mut self, offset: i64, position: Position) {
        let is_beyond = self.greatest.get(&position.source).is_none_or(|greatest| *greatest < position.place);
        if is_beyond && self.is_taken {
            self.fresh.insert(offset);
        } else {
            // The same record again, after a commit that was not answered.
            self.fresh.remove(&offset);
        }
        self.raise(position);
    }

    /// An event is begun: whether it cannot be a repeat. After that it may be one.
    pub(crate) fn begin(&mut self, offset: i64) -> bool {
        self.fresh.remove(&offset)
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
}
