//! Which pairs the runs before have met, and what the next one must have to meet others.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use fastrand::Rng;

use crate::plan::feature::{FAULTS, Fault, Feature, GUARANTEES, OTHERS, SHAPES};

/// Features that a run has at most, besides a guarantee and a shape.
const FEATURES_MAX: usize = 7;
const FAULTS_MAX: usize = 3;

/// The pairs that were met, and how often.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cover {
    pub(crate) features: BTreeMap<(Feature, Feature), usize>,
    pub(crate) faults: BTreeMap<(Feature, Fault), usize>,
}

/// A guarantee, a shape, other features, and faults.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) features: Vec<Feature>,
    pub(crate) faults: Vec<Fault>,
}

impl Cover {
    /// Chooses what has many pairs that were not met yet, and counts them as met.
    pub(crate) fn next(&mut self, rng: &mut Rng) -> Choice {
        let features = self.choose_features(rng);
        let faults = self.choose_faults(&features, rng);
        self.add(&features, &faults);
        Choice { features, faults }
    }

    pub(crate) fn add(&mut self, features: &[Feature], faults: &[Fault]) {
        for (number, one) in features.iter().enumerate() {
            for other in &features[number + 1..] {
                *self.features.entry(pair(*one, *other)).or_default() += 1;
            }
            for fault in faults {
                *self.faults.entry((*one, *fault)).or_default() += 1;
            }
        }
    }

    /// Begins with a pair that was met least, of features that have met few faults, and adds what makes most new pairs with the others.
    fn choose_features(&self, rng: &mut Rng) -> Vec<Feature> {
        let mut pairs = pairs();
        rng.shuffle(&mut pairs);
        let times = |pair: &(Feature, Feature)| self.features.get(pair).copied().unwrap_or_default();
        let mut met: BTreeMap<Feature, usize> = BTreeMap::new();
        self.faults.keys().for_each(|(feature, _)| *met.entry(*feature).or_default() += 1);
        let faults = |feature: &Feature| met.get(feature).copied().unwrap_or_default();
        let with_faults = |(one, other): &(Feature, Feature)| faults(one) + faults(other);
        let (one, other) = pairs.into_iter().min_by_key(|pair| (times(pair), with_faults(pair))).unwrap();
        let mut chosen = vec![one, other];
        loop {
            let mut more: Vec<Feature> = all().filter(|feature| fits(&chosen, *feature)).collect();
            rng.shuffle(&mut more);
            let new_pairs = |feature: &Feature| {
                chosen.iter().filter(|other| !self.features.contains_key(&pair(*feature, **other))).count()
            };
            let worth = |feature: &Feature| (new_pairs(feature), Reverse(faults(feature)));
            let Some(best) = more.into_iter().max_by_key(worth) else { return chosen };
            // Some runs have more than new pairs need.
            if new_pairs(&best) == 0 && is_complete(&chosen) && rng.u32(0..10) < 6 {
                return chosen;
            }
            chosen.push(best);
        }
    }

    fn choose_faults(&self, features: &[Feature], rng: &mut Rng) -> Vec<Fault> {
        let mut possible = FAULTS;
        rng.shuffle(&mut possible);
        let is_new = |feature: &Feature, fault: &Fault| !self.faults.contains_key(&(*feature, *fault));
        possible
            .sort_by_key(|fault| Reverse(features.iter().filter(|feature| is_new(feature, fault)).count()));
        possible[..rng.usize(2..=FAULTS_MAX)].to_vec()
    }
}

pub(crate) fn all() -> impl Iterator<Item = Feature> {
    GUARANTEES.into_iter().chain(SHAPES).chain(OTHERS)
}

/// Returns all pairs that a run can have.
pub(crate) fn pairs() -> Vec<(Feature, Feature)> {
    let all: Vec<Feature> = all().collect();
    let with_later = |(number, one): (usize, &Feature)| {
        all[number + 1..].iter().map(|other| (*one, *other)).collect::<Vec<_>>()
    };
    let pairs = all.iter().enumerate().flat_map(with_later);
    pairs.filter(|(one, other)| one.goes_with(*other) && is_possible(&[*one, *other])).collect()
}

/// Puts a pair into the order of the coverage matrix.
fn pair(one: Feature, other: Feature) -> (Feature, Feature) {
    if one < other { (one, other) } else { (other, one) }
}

/// Returns whether a run can have one more feature.
fn fits(chosen: &[Feature], more: Feature) -> bool {
    let others = chosen.iter().filter(|feature| OTHERS.contains(feature)).count();
    (others < FEATURES_MAX || !OTHERS.contains(&more))
        && chosen.iter().all(|chosen| chosen.goes_with(more))
        && is_possible(&[chosen, &[more]].concat())
}

/// Returns whether there is a guarantee and a shape that goes with all of them.
fn is_possible(chosen: &[Feature]) -> bool {
    let goes = |one: &Feature| chosen.iter().all(|chosen| chosen == one || chosen.goes_with(*one));
    [GUARANTEES, SHAPES].iter().all(|kind| kind.iter().any(goes))
}

fn is_complete(chosen: &[Feature]) -> bool {
    [GUARANTEES, SHAPES].iter().all(|kind| chosen.iter().any(|chosen| kind.contains(chosen)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::draw::BLOCK;

    /// As many runs as an hour has, on a machine that has other work.
    #[test]
    fn a_block_meets_all_pairs() {
        for seed in [0, 7, 1_795_000_000] {
            let (mut cover, mut rng) = (Cover::default(), Rng::with_seed(seed));
            (0..BLOCK).for_each(|_| drop(cover.next(&mut rng)));
            let missed: Vec<_> =
                pairs().into_iter().filter(|pair| !cover.features.contains_key(pair)).collect();
            assert_eq!(missed, [], "of {}", pairs().len());
            let with_faults = all().count() * FAULTS.len();
            assert!(cover.faults.len() * 100 >= with_faults * 99, "{} of {with_faults}", cover.faults.len());
        }
    }
}
