//! Failures of handlers, which their events request.

use fastrand::Rng;

use crate::oracle::Need;

/// The habit of a handler, at one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Habit {
    Plain,
    Slow,
    /// It fails at the first attempt.
    FailsOnce,
    /// A failed statement, undone by a savepoint.
    Savepoint,
    /// It takes two locks in an order by chance.
    Deadlock,
    /// The process ends in its middle, once.
    EndsProcess,
    /// A statement fails, and the handler returns `Ok`.
    IgnoresError,
    Panics,
    Poison,
    FailsAlways,
    /// It never returns.
    Hangs,
    /// It commits the inbox's transaction, and begins another one.
    Commits,
    /// It rolls it back, and begins another one.
    RollsBack,
    /// It fails until an operator allows its event.
    Blocked,
}

pub(crate) use Habit::*;

impl Habit {
    pub(crate) const ALL: [Self; 14] = [
        Plain,
        Slow,
        FailsOnce,
        Savepoint,
        Deadlock,
        EndsProcess,
        IgnoresError,
        Panics,
        Poison,
        FailsAlways,
        Hangs,
        Commits,
        RollsBack,
        Blocked,
    ];

    pub(crate) fn need(self) -> Need {
        match self {
            Plain | Slow | FailsOnce | Savepoint | Deadlock | EndsProcess => Need::Applied,
            IgnoresError | Panics | Poison | FailsAlways | Hangs => Need::DeadLetter,
            Commits | RollsBack => Need::DeadLetterAnyhow,
            Blocked => Need::Either,
        }
    }

    pub(crate) fn name(self) -> String {
        format!("{self:?}")
    }

    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|habit| habit.name() == name)
    }

    /// Draws a habit. Seven of eight events are plain.
    pub(crate) fn draw(rng: &mut Rng, among: &[Self]) -> Self {
        if among.is_empty() || rng.u32(0..8) > 0 { Plain } else { among[rng.usize(0..among.len())] }
    }
}
