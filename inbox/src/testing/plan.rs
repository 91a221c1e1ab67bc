//! Schedules of the harness.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use fastrand::Rng;

/// Schedule of a run: the steps in order.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
}

/// Step of a schedule, for the event with this index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The process ends at this await. After the handler's own awaits there are two more: before the commit, and in it.
    Interrupt { event: usize, at: u32 },
    /// The event is handled to its end. If it was before, this is a repeat.
    Handle { event: usize },
    /// Two consumers handle the event at the same time.
    HandleTwice { event: usize },
}

impl Plan {
    /// Creates a plan that interrupts each event at this await, then handles it.
    pub(super) fn interrupting_each(count: usize, at: u32) -> Self {
        let each = |event| [Step::Interrupt { event, at }, Step::Handle { event }];
        Self { steps: (0..count).flat_map(each).collect() }
    }

    /// Creates a random plan in which the events of a key stay in order.
    pub(super) fn by_chance(keys: &[Option<Vec<u8>>], awaits: &[u32], seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut lanes: BTreeMap<&Option<Vec<u8>>, VecDeque<usize>> = BTreeMap::new();
        keys.iter().enumerate().for_each(|(index, key)| lanes.entry(key).or_default().push_back(index));
        let mut lanes: Vec<VecDeque<usize>> = lanes.into_values().collect();
        let (mut steps, mut ended) = (Vec::new(), Vec::new());
        while let Some(lane) = rng.choice(lanes.iter_mut()) {
            if let Some(event) = lane.pop_front() {
                let last = awaits.get(event).copied().unwrap_or_default() + 2;
                let crashes = rng.usize(..3);
                steps.extend((0..crashes).map(|_| Step::Interrupt { event, at: rng.u32(1..=last) }));
                let twice = rng.u8(..4) == 0;
                steps.push(if twice { Step::HandleTwice { event } } else { Step::Handle { event } });
                ended.push(event);
            }
            if rng.bool() {
                steps.extend(rng.choice(&ended).map(|event| Step::Handle { event: *event }));
            }
            lanes.retain(|lane| !lane.is_empty());
        }
        Self { steps }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            match step {
                Step::Interrupt { event, at } => write!(f, "{comma}event {event} interrupted at await {at}")?,
                Step::Handle { event } => write!(f, "{comma}event {event}")?,
                Step::HandleTwice { event } => write!(f, "{comma}event {event} twice at a time")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Each event is handled, and the events of a key are in their order.
        #[test]
        fn chance_leaves_nothing_out_and_keeps_the_order_of_keys(
            keys in prop::collection::vec(prop::option::of(0..3_u8), 0..12),
            seed in any::<u64>(),
        ) {
            let keys: Vec<Option<Vec<u8>>> = keys.iter().map(|key| key.map(|key| vec![key])).collect();
            let plan = Plan::by_chance(&keys, &vec![3; keys.len()], seed);
            let mut first = Vec::new();
            for step in plan.steps {
                let (Step::Handle { event } | Step::HandleTwice { event } | Step::Interrupt { event, .. }) = step;
                if !first.contains(&event) {
                    first.push(event);
                }
            }
            prop_assert_eq!(first.len(), keys.len());
            for key in &keys {
                let of_key: Vec<_> = first.iter().filter(|event| keys[**event] == *key).collect();
                prop_assert!(of_key.is_sorted());
            }
        }
    }
}
