//! The world of [`crate::cleanup::model`], all of whose rows are in one partition, and what becomes of them when it goes. Seeded.

use crate::cleanup::model::{Bug as Sound, World};

/// Bug of a wrong implementation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    None,
    /// Looks and drops, without a lock.
    NoLock,
    /// Looks, then locks, and does not look again.
    LooksBeforeTheLock,
    /// Takes a lock that does not wait for those who have written.
    DoesNotWait,
    /// Lets writers in again between the look and the end.
    LetsGo,
    /// Believes that a partition whose time is over is sent.
    ByTheClock,
}

/// Returns the number of rows that were not sent when their partition was dropped; none when it stayed.
fn lost(seed: u64, bug: Bug) -> Option<usize> {
    let mut world = World::new(seed);
    (0..200).for_each(|_| world.step());
    world.over = true;
    (0..300).for_each(|_| world.step());
    let (horizon, ..) = world.horizon(Sound::None)?;
    let looked = world.all_covered(horizon);
    if !matches!(bug, Bug::NoLock | Bug::ByTheClock) {
        (0..40).for_each(|_| world.step());
        world.locked = true;
    }
    if !matches!(bug, Bug::NoLock | Bug::ByTheClock | Bug::DoesNotWait) {
        // New writers wait behind us.
        for _ in 0..400 {
            if world.is_unwritten() {
                break;
            }
            world.step();
        }
        if !world.is_unwritten() {
            return None;
        }
    }
    let proven = match bug {
        Bug::ByTheClock => true,
        Bug::NoLock | Bug::LooksBeforeTheLock => looked,
        Bug::None | Bug::DoesNotWait | Bug::LetsGo => world.all_covered(horizon),
    };
    world.locked &= bug != Bug::LetsGo;
    (0..40).for_each(|_| world.step());
    proven.then(|| world.not_sent())
}

/// Returns the number of partitions that were dropped, and of their rows that were not sent.
fn all(bug: Bug) -> (usize, usize) {
    let gone: Vec<_> = (0..3_000).filter_map(|seed| lost(seed, bug)).collect();
    (gone.len(), gone.iter().sum())
}

#[test]
fn no_partition_goes_with_an_unsent_row() {
    let (gone, unsent) = all(Bug::None);
    assert!(gone > 50 && unsent == 0, "{gone} went, with {unsent} rows");
}

#[test]
fn the_model_finds_each_mistake_with_partitions() {
    for bug in [Bug::NoLock, Bug::LooksBeforeTheLock, Bug::DoesNotWait, Bug::LetsGo, Bug::ByTheClock] {
        assert!(all(bug).1 > 0, "{bug:?}");
    }
}
