//! From a seed to what a run has. Each seed of a block prefers pairs that those before it have not met: `cover`.

use fastrand::Rng;

use crate::plan::cover::{Choice, Cover};
use crate::plan::feature::{Fault, Feature, GUARANTEES, OTHERS, SHAPES};

/// Seeds that meet all pairs together.
pub(crate) const BLOCK: u64 = 64;

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
    /// Draws the run of a seed. The seeds of a block, from a multiple of `BLOCK` on, meet all pairs together.
    pub(crate) fn of(seed: u64) -> Self {
        let (mut cover, mut of_block) = (Cover::default(), Rng::with_seed(seed / BLOCK));
        let chosen = (0..=seed % BLOCK).map(|_| cover.next(&mut of_block)).last();
        let Choice { features: chosen, faults } = chosen.unwrap();
        let of_kind = |kind: &[Feature]| *chosen.iter().find(|feature| kind.contains(feature)).unwrap();
        let (guarantee, shape) = (of_kind(&GUARANTEES), of_kind(&SHAPES));
        let mut features = chosen.clone();
        features.retain(|feature| OTHERS.contains(feature));
        let mut rng = Rng::with_seed(seed);
        rng.shuffle(&mut features);
        // A delete contains the age of its row, where the row may be in several partitions.
        let moves = |feature: &Feature| {
            matches!(
                feature,
                Feature::Renamed
                    | Feature::KeyColumns
                    | Feature::NewPrimaryKey
                    | Feature::Swapped
                    | Feature::PartitionsAdded
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

    /// Returns whether the rows that are there come before the stream.
    pub(crate) fn begins_with_snapshot(&self) -> bool {
        [Feature::InitialSnapshot, Feature::AlwaysSnapshot, Feature::PartialSnapshot]
            .into_iter()
            .any(|feature| self.has(feature))
    }

    /// Returns whether a partial snapshot excludes all tables but one, and not rows of one table.
    pub(crate) const fn excludes_tables(&self) -> bool {
        self.window != 50
    }

    /// Returns all features, for the coverage matrix.
    pub(crate) fn all(&self) -> Vec<Feature> {
        [self.guarantee, self.shape].into_iter().chain(self.features.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_run_has_what_excludes_each_other() {
        for seed in (0..2 * BLOCK).chain(1_795_000_000..1_795_000_000 + BLOCK) {
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
