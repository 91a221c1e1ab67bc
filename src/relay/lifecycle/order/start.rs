//! Order of a start: the server, the tables, the slot, the stream, and the position that another outboxd may have stored.

use super::judging::{Found, Grounds, Judged, Judging};
use crate::error::{Class, Diagnose as _};
use crate::postgres::{Slot, SnapshotMode};
use crate::relay::error::Error;
use crate::relay::origin::Origin;
use crate::relay::progress::comparison::{Comparison, FoundSlot, Known, StoredSnapshots};
use crate::relay::progress::position::Position;
use crate::wal::Lsn;

/// Start whose server has the expected history. Next, the captured tables are found.
#[derive(Debug)]
pub(in crate::relay) struct NeedsTables(());

/// Start whose tables are known.
#[derive(Debug)]
pub(in crate::relay) enum Tables {
    /// `snapshot.mode=initial_only`: their rows are sent, and nothing follows.
    SnapshotOnly,
    /// They are published next.
    Publish(NeedsSlot),
}

/// Start whose tables are published. Next, the slot is queried.
#[derive(Debug)]
pub(in crate::relay) struct NeedsSlot(());

/// Start whose slot is ready. Next, the stream starts, and then the slot is queried again: between the last query and the start
/// another client can have moved it.
#[derive(Debug)]
pub(in crate::relay) struct NeedsStream(Box<Found>);

/// Start whose stream has begun: no other client can move the slot any more.
#[derive(Debug)]
pub(in crate::relay) enum Begun {
    /// The slot was moved before, and is judged again.
    Moved(Judging),
    Settled(Started),
}

/// Start whose slot is where it may be.
#[derive(Debug)]
pub(in crate::relay) struct Started {
    pub(in crate::relay) found: Box<Found>,
    /// The position is read before the first row: another outboxd may have had the slot unnoticed.
    pub(in crate::relay) catch_up: Option<CatchUp>,
}

/// Start that reads the position while its stream is kept alive.
#[derive(Debug, Clone, Copy)]
pub(in crate::relay) struct CatchUp(());

/// Result of a read of the position.
#[derive(Debug)]
pub(in crate::relay) enum CaughtUp {
    /// Kafka cannot be reached: the position is read again, without a time limit.
    Again(Error),
    /// Kafka does not permit it: the session continues without the position.
    Without(Error),
    Read(Option<Box<Position>>),
}

impl NeedsTables {
    /// Begins a start at a server whose WAL ends there.
    ///
    /// # Errors
    /// When its history is not the one that this process has read.
    pub(in crate::relay) fn at_server(
        known: Option<&Known>,
        origin: &Origin,
        wal_end: Lsn,
    ) -> Result<Self, Error> {
        known.map_or(Ok(()), |known| known.check(origin, wal_end))?;
        Ok(Self(()))
    }

    /// Continues with the tables that were found.
    pub(in crate::relay) const fn found(self, mode: SnapshotMode) -> Tables {
        match mode {
            SnapshotMode::InitialOnly => Tables::SnapshotOnly,
            SnapshotMode::Initial
            | SnapshotMode::Always
            | SnapshotMode::WhenNeeded
            | SnapshotMode::NoData => Tables::Publish(NeedsSlot(())),
        }
    }
}

impl NeedsSlot {
    /// Continues with a slot that may be used, or with its absence.
    pub(in crate::relay) fn found(self, slot: Option<Slot>, grounds: Grounds<'_>) -> Judging {
        Judging::of(slot, grounds)
    }
}

impl NeedsStream {
    pub(in crate::relay) const fn new(found: Box<Found>) -> Self {
        Self(found)
    }

    pub(in crate::relay) const fn found(&self) -> &Found {
        &self.0
    }

    /// Continues with the slot's present position.
    pub(in crate::relay) fn started(self, confirmed: Lsn, grounds: Grounds<'_>) -> Begun {
        let Self(found) = self;
        let Slot { created, confirmed_flush_lsn } = found.slot;
        match !created && confirmed > confirmed_flush_lsn {
            true => Begun::Moved(Judging::again(found, confirmed, grounds)),
            false => Begun::Settled(Started::of(found)),
        }
    }
}

impl Started {
    /// Continues with the verdict on a slot that was moved.
    ///
    /// # Errors
    /// When the slot is gone.
    pub(in crate::relay) fn judged(judged: Judged, comparison: &Comparison<'_>) -> Result<Self, Error> {
        match judged {
            Judged::Usable(found) => Ok(Self::of(found)),
            Judged::Missing { .. } => Err(comparison.slot.vanished().into()),
        }
    }

    fn of(found: Box<Found>) -> Self {
        let catch_up = found.reads_later.then_some(CatchUp(()));
        Self { found, catch_up }
    }
}

impl CatchUp {
    /// Decides what follows from a read of the position.
    ///
    /// # Errors
    /// When the position cannot be understood.
    pub(in crate::relay) fn read(self, read: Result<Option<Position>, Error>) -> Result<CaughtUp, Error> {
        match read {
            Err(error @ Error::Kafka(_)) if error.class() == Class::Definite => Ok(CaughtUp::Without(error)),
            Err(error @ Error::Kafka(_)) => Ok(CaughtUp::Again(error)),
            read => Ok(CaughtUp::Read(read?.map(Box::new))),
        }
    }

    /// Takes over what another outboxd has stored: its tables, and the progress of its snapshots.
    ///
    /// # Errors
    /// When it has ended because rows are not in the stream.
    pub(in crate::relay) fn learn(
        self,
        position: &Position,
        found: FoundSlot<'_>,
        comparison: &Comparison<'_>,
    ) -> Result<Option<StoredSnapshots>, Error> {
        comparison.catch_up(position, found)
    }
}
