//! A start's action on the slot. One decision: the start carries it out, and the commands report it before.

use super::judging::{Found, Judged, Judgement};
use crate::postgres::SnapshotMode;
use crate::relay::error::Error;
use crate::relay::progress::comparison::Comparison;
use crate::relay::progress::position::Unfinished;
use crate::source_offset::{SnapshotProgress, SourceOffset};

/// A start's action on the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartStep {
    /// Continue from the slot.
    Continue,
    /// Send the rows of the tables, and then continue from the slot: nothing was ever streamed from it.
    SnapshotBeside,
    /// The same because of `snapshot.mode=always`, or because Debezium has not finished its snapshot.
    SnapshotAgain,
    /// Create the slot, without a snapshot.
    Create,
    /// Create the slot, and send the rows of the tables.
    CreateWithSnapshot,
    /// Drop a lost slot, create it again, and send the rows of the tables.
    Recover,
    /// Send the rows of the tables and end, without a slot.
    SnapshotOnly,
    /// End with an error.
    Refuse,
}

impl StartStep {
    /// Decides the step of a start. With `recovers` a lost slot is given up (`slot.recovery=snapshot`).
    pub(in crate::relay) fn of(
        mode: SnapshotMode,
        recovers: bool,
        judged: Result<Judgement, &Error>,
    ) -> Self {
        match judged {
            _ if mode == SnapshotMode::InitialOnly => Self::SnapshotOnly,
            Ok(Judgement::Usable { is_unused: true, .. }) if mode.sends_rows() => Self::SnapshotBeside,
            Ok(Judgement::Usable { takes_again: true, .. }) => Self::SnapshotAgain,
            Ok(Judgement::Usable { .. }) => Self::Continue,
            Ok(Judgement::Missing) if mode == SnapshotMode::NoData => Self::Create,
            Ok(Judgement::Missing) => Self::CreateWithSnapshot,
            Err(error) if error.is_lost_slot() && recovers => Self::Recover,
            Err(_) => Self::Refuse,
        }
    }
}

/// Action on the slot, with what it needs.
#[derive(Debug)]
pub(in crate::relay) enum Preparation {
    Continue(Box<Found>),
    SnapshotBeside(Box<Found>),
    SnapshotAgain(Box<Found>),
    /// Continue up to where the WAL ends now, and then send the rows of the tables.
    CatchUp(Box<Found>),
    Create {
        is_accepted: bool,
    },
    CreateWithSnapshot {
        unfinished: Option<Unfinished>,
        is_accepted: bool,
    },
    /// With the loss that it recovers from.
    Recover(Error),
}

impl Preparation {
    /// Decides about the slot from the verdict on it. With `recovers` a lost slot is given up (`slot.recovery=snapshot`).
    ///
    /// # Errors
    /// When the verdict is one, and the start ends with it.
    pub(in crate::relay) fn of(
        judged: Result<Judged, Error>,
        comparison: &Comparison<'_>,
        recovers: bool,
    ) -> Result<Self, Error> {
        let judgement = judged.as_ref().map(|judged| judged.judgement(comparison));
        let step = StartStep::of(comparison.mode, recovers, judgement);
        match (step, judged) {
            (StartStep::Recover, Err(error)) => Ok(Self::Recover(error)),
            (_, Err(error)) => Err(error),
            (StartStep::SnapshotBeside, Ok(Judged::Usable(found))) => Ok(Self::SnapshotBeside(found)),
            (StartStep::SnapshotAgain, Ok(Judged::Usable(found))) => {
                match comparison.catches_up_first(found.slot.confirmed_flush_lsn) {
                    true => Ok(Self::CatchUp(found)),
                    false => Ok(Self::SnapshotAgain(found)),
                }
            }
            (_, Ok(Judged::Usable(found))) => Ok(Self::Continue(found)),
            (StartStep::Create, Ok(Judged::Missing { is_accepted, .. })) => Ok(Self::Create { is_accepted }),
            (_, Ok(Judged::Missing { unfinished, is_accepted })) => {
                Ok(Self::CreateWithSnapshot { unfinished, is_accepted })
            }
        }
    }
}

impl SnapshotMode {
    /// Returns true if a first start sends the existing rows and then streams.
    pub(in crate::relay) const fn sends_rows(self) -> bool {
        match self {
            Self::Initial | Self::Always | Self::WhenNeeded => true,
            Self::NoData | Self::InitialOnly => false,
        }
    }

    /// Reports whether a snapshot is sent although there is a slot: at every start, or because Debezium has not finished its own.
    pub(in crate::relay) fn takes_again(self, stored: Option<&SourceOffset>) -> bool {
        let unfinished = stored.is_some_and(|stored| stored.snapshot == SnapshotProgress::Unfinished);
        match self {
            Self::Always => true,
            Self::Initial | Self::WhenNeeded => unfinished,
            Self::NoData | Self::InitialOnly => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::Lsn;

    #[test]
    fn the_step_follows_from_the_slot_and_the_mode() {
        let lost = Error::StateWithoutSlot { slot: "orders".to_owned(), sent_up_to: Lsn::new(1) };
        let usable = |is_unused, takes_again| Ok(Judgement::Usable { is_unused, takes_again });
        let cases = [
            (SnapshotMode::Initial, usable(false, false), StartStep::Continue),
            (SnapshotMode::Initial, usable(true, false), StartStep::SnapshotBeside),
            (SnapshotMode::NoData, usable(true, false), StartStep::Continue),
            (SnapshotMode::Always, usable(false, true), StartStep::SnapshotAgain),
            (SnapshotMode::NoData, Ok(Judgement::Missing), StartStep::Create),
            (SnapshotMode::Initial, Ok(Judgement::Missing), StartStep::CreateWithSnapshot),
            (SnapshotMode::Initial, Err(&lost), StartStep::Refuse),
            (SnapshotMode::NoData, Err(&lost), StartStep::Refuse),
            (SnapshotMode::WhenNeeded, Err(&lost), StartStep::Recover),
            (SnapshotMode::InitialOnly, Ok(Judgement::Missing), StartStep::SnapshotOnly),
        ];
        for (mode, judged, expected) in cases {
            let recovers = mode == SnapshotMode::WhenNeeded;
            assert_eq!(StartStep::of(mode, recovers, judged), expected, "{mode:?} {judged:?}");
        }
    }
}
