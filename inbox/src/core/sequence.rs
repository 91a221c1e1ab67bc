//! Decisions by sequence numbers.

use std::collections::{BTreeMap, BTreeSet};

/// Events of a transaction, classified by their sequence numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Indexes of the events to handle.
    pub(crate) handle: Vec<usize>,
    /// Indexes of the events before which a number is missing, each with the number that should come next.
    pub(crate) gaps: Vec<(usize, i64)>,
    /// Changes of the stored numbers, by key.
    pub(crate) advance: BTreeMap<Vec<u8>, Advance>,
    /// Indexes of the events whose number is before the first one of their key. They were never handled.
    pub(crate) before_first: Vec<usize>,
    /// Keys and numbers of the dead letters that are read again.
    pub(crate) again: Vec<(Vec<u8>, i64)>,
}

/// Change of the stored numbers of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Advance {
    /// Next number before the transaction, if it is known.
    pub(crate) before: Option<i64>,
    /// Next number after the transaction.
    pub(crate) next: i64,
    /// First number of the key. If none was known, that of the first event handled.
    pub(crate) first: i64,
}

/// Stored numbers of the keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// Number that should come next.
    pub(crate) next: BTreeMap<Vec<u8>, i64>,
    /// First number that came. Older versions did not store it.
    pub(crate) first: BTreeMap<Vec<u8>, i64>,
    /// Numbers that became dead letters.
    pub(crate) dead: BTreeSet<(Vec<u8>, i64)>,
}

/// Separates new events from repeats and from those that come too early. `first` is the first number of every key; without it, the
/// number that comes first.
pub(crate) fn plan(events: &[(&[u8], i64)], known: &Known, first: Option<i64>) -> Plan {
    let mut plan = Plan::default();
    for (index, (key, number)) in events.iter().enumerate() {
        let before = known.next.get(*key).copied();
        let planned = plan.advance.get(*key).copied();
        let next = planned.map(|planned| planned.next).or(before).or(first).unwrap_or(*number);
        let first_known = first.or_else(|| known.first.get(*key).copied());
        let first_of_key =
            first_known.or_else(|| planned.filter(|_| before.is_none()).map(|planned| planned.first));
        let is_dead = |number| known.dead.contains(&(key.to_vec(), number));
        if *number > next {
            plan.gaps.push((index, next));
        } else if *number == next {
            let after = (number.saturating_add(1)..).find(|number| !is_dead(*number)).unwrap_or(i64::MAX);
            let first = first_of_key.unwrap_or(*number);
            plan.advance.insert(key.to_vec(), Advance { before, next: after, first });
            plan.handle.push(index);
        } else if is_dead(*number) && !plan.again.iter().any(|again| again.0 == *key && again.1 == *number) {
            plan.again.push((key.to_vec(), *number));
            plan.handle.push(index);
        } else if first_of_key.is_some_and(|first| *number < first) {
            plan.before_first.push(index);
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn known(next: Option<i64>, dead: &[i64]) -> Known {
        let key = || b"a".to_vec();
        Known {
            next: next.map(|next| (key(), next)).into_iter().collect(),
            first: next.map(|_| (key(), 3)).into_iter().collect(),
            dead: dead.iter().map(|number| (key(), *number)).collect(),
        }
    }

    /// Plans events of one key. Returns the numbers handled, those that wait, and the next number.
    fn run(numbers: &[i64], known: &Known) -> (Vec<i64>, Vec<i64>, Option<i64>) {
        let events: Vec<(&[u8], i64)> = numbers.iter().map(|number| (&b"a"[..], *number)).collect();
        let plan = plan(&events, known, None);
        let handled = plan.handle.iter().map(|index| numbers[*index]).collect();
        let waiting = plan.gaps.iter().map(|(index, _)| numbers[*index]).collect();
        (handled, waiting, plan.advance.values().map(|advance| advance.next).next())
    }

    #[test]
    fn repeats_gaps_and_dead_letters_are_known_by_their_number() {
        assert_eq!(run(&[7, 8, 7, 8], &known(None, &[])), (vec![7, 8], vec![], Some(9)));
        assert_eq!(run(&[5, 7, 6], &known(Some(6), &[])), (vec![6], vec![7], Some(7)));
        assert_eq!(run(&[3, 3, 4], &known(Some(6), &[3])), (vec![3], vec![], None));
        assert_eq!(run(&[6], &known(Some(6), &[7, 8])), (vec![6], vec![], Some(9)));
    }

    #[test]
    fn a_number_before_the_first_one_is_no_repeat() {
        let of = |numbers: &[i64], known: &Known, first| {
            let events: Vec<(&[u8], i64)> = numbers.iter().map(|number| (&b"a"[..], *number)).collect();
            let plan = plan(&events, known, first);
            let numbers =
                |indexes: Vec<usize>| indexes.into_iter().map(|index| numbers[index]).collect::<Vec<_>>();
            let gaps = plan.gaps.iter().map(|(index, _)| *index).collect();
            (numbers(plan.handle), numbers(gaps), numbers(plan.before_first))
        };
        // The first number came late: within a transaction, and in another one.
        assert_eq!(of(&[2, 1, 3], &known(None, &[]), None), (vec![2, 3], vec![], vec![1]));
        assert_eq!(of(&[2, 3, 6], &known(Some(6), &[]), None), (vec![6], vec![], vec![2]));
        // A known first number is waited for.
        assert_eq!(of(&[2, 1, 2], &known(None, &[]), Some(1)), (vec![1, 2], vec![2], vec![]));
        assert_eq!(of(&[0], &known(None, &[]), Some(1)), (vec![], vec![], vec![0]));
        // A dead letter that is read again is handled. An older version stored no first number.
        assert_eq!(of(&[1], &known(Some(6), &[1]), None), (vec![1], vec![], vec![]));
        let old = Known { first: BTreeMap::new(), ..known(Some(6), &[]) };
        assert_eq!(of(&[1], &old, None), (vec![], vec![], vec![]));
    }

    proptest! {
        /// Events come repeated and in any order: each is handled once and in order if the waiting ones are checked again.
        #[test]
        fn each_number_is_handled_once_and_in_order(count in 1..12_i64, order in prop::collection::vec(0..12_i64, 0..60)) {
            let mut next = Some(0);
            let mut waiting = BTreeSet::new();
            let mut handled = Vec::new();
            for number in order.into_iter().filter(|number| *number < count).chain(0..count) {
                let mut event = Some(number);
                while let Some(number) = event {
                    let (done, early, after) = run(&[number], &known(next, &[]));
                    handled.extend(done);
                    waiting.extend(early);
                    next = after.or(next);
                    event = next.filter(|next| waiting.remove(next));
                }
            }
            prop_assert_eq!(handled, (0..count).collect::<Vec<_>>());
        }
    }
}
