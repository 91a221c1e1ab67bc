//! From a seed to what a run has. Three pairs of features and one pair of a feature and a fault are fixed by the seed's number, so
//! that consecutive seeds meet all of them; the rest is random.

use fastrand::Rng;

use crate::plan::feature::{FAULTS, Fault, Feature, GUARANTEES, OTHERS, SHAPES};

/// Features that a run has at most, besides a guarantee and a shape.
const FEATURES_MAX: usize = 6;
/// Coprime to the number of pairs as often as not, so that neighbours differ.
const STRIDE: u64 = 97;

#[derive(Debug, Clone)]
pub(crate) struct Draw {
    pub(crate) seed: u64,
    pub(crate) guarantee: Feature,
    pub(crate) shape: Feature,
    /// In the order in which the operations among them are carried out.
    pub(crate) features: Vec<Feature>,
    pub(crate) faults: Vec<Fault>,
    /// `outboxd.inflight.records.max`.
    pub(crate) window: u32,
    /// The publication has all tables.
    pub(crate) all_tables: bool,
    /// The replica identity of tables is FULL.
    pub(crate) full_identity: bool,
    /// Configuration features that begin with the second configuration.
    pub(crate) later: Vec<Feature>,
}

impl Draw {
    pub(crate) fn of(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let pairs = pairs();
        let count = u64::try_from(pairs.len()).unwrap();
        let mut chosen: Vec<Feature> = Vec::new();
        for third in 0..3 {
            let number = usize::try_from((seed * STRIDE + third * count / 3) % count).unwrap();
            let (one, other) = pairs[number];
            let fits = |feature: &Feature| {
                chosen.iter().all(|chosen| chosen == feature || chosen.goes_with(*feature))
            };
            if fits(&one) && fits(&other) {
                chosen.extend([one, other]);
            }
        }
        let guarantee = fill(&mut chosen, &GUARANTEES, &mut rng);
        let shape = fill(&mut chosen, &SHAPES, &mut rng);
        while chosen.len() < FEATURES_MAX && rng.u32(0..10) < 7 {
            let more = OTHERS[rng.usize(0..OTHERS.len())];
            if chosen.iter().all(|feature| feature.goes_with(more)) {
                chosen.push(more);
            }
        }
        let mut features: Vec<Feature> =
            chosen.into_iter().filter(|feature| OTHERS.contains(feature)).collect();
        features.sort_unstable();
        features.dedup();
        rng.shuffle(&mut features);
        let mut faults = vec![FAULTS[usize::try_from(seed % 13).unwrap()]];
        while faults.len() < 3 && rng.bool() {
            faults.push(FAULTS[rng.usize(0..FAULTS.len())]);
        }
        // A delete says how old its row is, where the row may stand in several partitions.
        let moves = |feature: &Feature| {
            matches!(
                feature,
                Feature::Renamed | Feature::KeyColumns | Feature::NewPrimaryKey | Feature::Swapped
            )
        };
        let full_identity = features.iter().any(moves) || rng.bool();
        let needs_all = features.iter().any(|feature| feature.is_of_new_table());
        let later = |feature: &&Feature, rng: &mut Rng| {
            feature.is_change() || feature.is_of_configuration() && rng.bool()
        };
        let later = features.iter().filter(|feature| later(feature, &mut rng)).copied().collect();
        Self {
            seed,
            guarantee,
            shape,
            faults,
            window: [50, 200, 1000][rng.usize(0..3)],
            all_tables: needs_all || rng.bool(),
            full_identity,
            later,
            features,
        }
    }

    pub(crate) fn has(&self, feature: Feature) -> bool {
        self.guarantee == feature || self.shape == feature || self.features.contains(&feature)
    }

    /// Whether it meets a fault that is known and open: docs/reliability.md, "Known and open". Such a seed runs when it is asked for.
    pub(crate) fn is_open(&self) -> bool {
        let is_transactional = self.has(Feature::ExactlyOnce) || self.has(Feature::GuaranteeChanged);
        self.has(Feature::TooLarge) && is_transactional
    }

    /// Everything, for the coverage matrix.
    pub(crate) fn all(&self) -> Vec<Feature> {
        [self.guarantee, self.shape].into_iter().chain(self.features.iter().copied()).collect()
    }
}

/// The one of these that was chosen already, or another one that goes with what was chosen.
fn fill(chosen: &mut Vec<Feature>, among: &[Feature], rng: &mut Rng) -> Feature {
    if let Some(feature) = chosen.iter().find(|feature| among.contains(feature)) {
        return *feature;
    }
    let fits = |feature: &&Feature| chosen.iter().all(|chosen| chosen.goes_with(**feature));
    let possible: Vec<Feature> = among.iter().filter(fits).copied().collect();
    let feature = possible[rng.usize(0..possible.len())];
    chosen.push(feature);
    feature
}

/// All pairs that a run can have.
pub(crate) fn pairs() -> Vec<(Feature, Feature)> {
    let all: Vec<Feature> = GUARANTEES.into_iter().chain(SHAPES).chain(OTHERS).collect();
    let mut pairs = Vec::new();
    for (number, one) in all.iter().enumerate() {
        pairs.extend(
            all[number + 1..].iter().filter(|other| one.goes_with(**other)).map(|other| (*one, *other)),
        );
    }
    pairs
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Some hundred seeds, wherever they begin, have almost every pair.
    #[test]
    fn seeds_in_a_row_meet_all_pairs() {
        let all: BTreeSet<(Feature, Feature)> = pairs().into_iter().collect();
        for first in [0, 1_000, 1_795_000_000] {
            let met: BTreeSet<(Feature, Feature)> = (first..first + 400)
                .flat_map(|seed| {
                    let mut features = Draw::of(seed).all();
                    features.sort_unstable();
                    let pair = |(number, one): (usize, &Feature)| {
                        features[number + 1..].iter().map(|other| (*one, *other)).collect::<Vec<_>>()
                    };
                    features.iter().enumerate().flat_map(pair).collect::<Vec<_>>()
                })
                .collect();
            let missed: Vec<_> = all.difference(&met).collect();
            assert!(missed.len() * 100 < all.len(), "{} of {}: {missed:?}", missed.len(), all.len());
        }
    }

    #[test]
    fn no_run_has_what_excludes_each_other() {
        for seed in 0..2_000 {
            let features = Draw::of(seed).all();
            for (number, one) in features.iter().enumerate() {
                assert!(
                    features[number + 1..].iter().all(|other| one.goes_with(*other)),
                    "{seed}: {features:?}"
                );
            }
        }
    }
}
