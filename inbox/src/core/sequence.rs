use std::collections::{BTreeMap, BTreeSet};

/// The events of a transaction, by what their numbers say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// To be handled, by index.
    pub(crate) handle: Vec<usize>,
    /// A number before theirs is missing, by index, with the number that should come next.
    pub(crate) gaps: Vec<(usize, i64)>,
    /// By key, the next number before, if any is known, and from now on.
    pub(crate) advance: BTreeMap<Vec<u8>, (Option<i64>, i64)>,
    /// Dead letters that come again.
    pub(crate) again: Vec<(Vec<u8>, i64)>,
}

/// What is known of the keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// The number that should come next.
    pub(crate) next: BTreeMap<Vec<u8>, i64>,
    /// The numbers that became dead letters.
    pub(crate) dead: BTreeSet<(Vec<u8>, i64)>,
}

/// Tells new events from repeats and from those that come too early. The first event of a key has the first number.
pub(crate) fn plan(events: &[(&[u8], i64)], known: &Known) -> Plan {
    let mut plan = Plan::default();
    for (index, (key, number)) in events.iter().enumerate() {
        let before = known.next.get(*key).copied();
        let next = plan.advance.get(*key).map(|(_, next)| *next).or(before).unwrap_or(*number);
        let is_dead = |number| known.dead.contains(&(key.to_vec(), number));
        if *number > next {
            plan.gaps.push((index, next));
        } else if *number == next {
            let after = (number.saturating_add(1)..).find(|number| !is_dead(*number)).unwrap_or(i64::MAX);
            plan.advance.insert(key.to_vec(), (before, after));
            plan.handle.push(index);
        } else if is_dead(*number) && !plan.again.iter().any(|again| again.0 == *key && again.1 == *number) {
            plan.again.push((key.to_vec(), *number));
            plan.handle.push(index);
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
            dead: dead.iter().map(|number| (key(), *number)).collect(),
        }
    }

    /// Of events of one key: those handled, those that wait, and the next number.
    fn run(numbers: &[i64], known: &Known) -> (Vec<i64>, Vec<i64>, Option<i64>) {
        let events: Vec<(&[u8], i64)> = numbers.iter().map(|number| (&b"a"[..], *number)).collect();
        let plan = plan(&events, known);
        let handled = plan.handle.iter().map(|index| numbers[*index]).collect();
        let waiting = plan.gaps.iter().map(|(index, _)| numbers[*index]).collect();
        (handled, waiting, plan.advance.values().map(|(_, next)| *next).next())
    }

    #[test]
    fn repeats_gaps_and_dead_letters_are_known_by_their_number() {
        assert_eq!(run(&[7, 8, 7, 8], &known(None, &[])), (vec![7, 8], vec![], Some(9)));
        assert_eq!(run(&[5, 7, 6], &known(Some(6), &[])), (vec![6], vec![7], Some(7)));
        assert_eq!(run(&[3, 3, 4], &known(Some(6), &[3])), (vec![3], vec![], None));
        assert_eq!(run(&[6], &known(Some(6), &[7, 8])), (vec![6], vec![], Some(9)));
    }

    proptest! {
        /// However events come, repeated and mixed up: each is handled once and in order when those that wait are looked at
        /// again.
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
