//! Judgement of the slot: the questions in their order, and the verdict whether a start can continue from the slot or has to create
//! one.

use crate::postgres::{self, Slot, SlotHolder, SnapshotMode};
use crate::relay::capture::preflight::Site;
use crate::relay::capture::standby::check_replay;
use crate::relay::error::Error;
use crate::relay::progress::comparison::{Beginning, Comparison, FoundSlot, StoredSnapshots};
use crate::relay::progress::position::{Phase, Position, Unfinished};
use crate::relay::time::clock::Now;
use crate::source_offset::{SnapshotProgress, SourceOffset};
use crate::wal::Lsn;

/// Facts that a slot, or its absence, is compared with.
#[derive(Clone, Copy)]
pub(in crate::relay) struct Grounds<'g> {
    pub(in crate::relay) comparison: Comparison<'g>,
    pub(in crate::relay) site: &'g Site,
    /// True if positions are stored, as far as the brokers allow it.
    pub(in crate::relay) stores_positions: bool,
}

/// Judgement in progress: the next question, or the verdict.
#[derive(Debug)]
pub(in crate::relay) enum Judging {
    Taker(TakerQuestion),
    Offset(OffsetQuestion),
    State(StateQuestion),
    OffsetLeft(OffsetLeftQuestion),
    Position(PositionQuestion),
    Handover(HandoverQuestion),
    Judged(Judged),
}

/// Verdict on the slot.
#[derive(Debug)]
pub(in crate::relay) enum Judged {
    /// It can be continued from.
    Usable(Box<Found>),
    /// It is missing, and not required.
    Missing {
        /// Progress of an interrupted snapshot.
        unfinished: Option<Unfinished>,
        /// The operator has accepted that the stored position is ignored.
        is_accepted: bool,
    },
}

/// Part of a verdict that decides the step of the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay) enum Judgement {
    /// The slot can be continued from.
    Usable {
        /// Nothing was ever streamed from it.
        is_unused: bool,
        /// A snapshot is sent although there is a slot.
        takes_again: bool,
    },
    /// There is no slot, and need not be.
    Missing,
}

/// A slot to continue from.
#[derive(Debug)]
pub(in crate::relay) struct Found {
    pub(in crate::relay) slot: Slot,
    /// The offset that is stored for it.
    pub(in crate::relay) stored: Option<SourceOffset>,
    /// The position is read when the stream has started: this process has its own record of where the slot was.
    pub(in crate::relay) reads_later: bool,
    /// Progress of incremental snapshots in the position.
    pub(in crate::relay) snapshots: Option<StoredSnapshots>,
    /// True if the slot is where outboxd left it, as far as that is known.
    pub(in crate::relay) is_where_left: bool,
    /// No stored position, offset or state shows that it was streamed from.
    pub(in crate::relay) is_unused: bool,
    /// Progress of an interrupted snapshot.
    pub(in crate::relay) unfinished: Option<Unfinished>,
    /// The position that was read, if it is one of this slot.
    pub(in crate::relay) position: Option<Box<Position>>,
    pub(in crate::relay) snapshot: DueSnapshot,
}

/// Snapshot that a start sends although there is a slot. The slot is held meanwhile: what another instance sends from it would come
/// before older rows of the snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay) enum DueSnapshot {
    None,
    /// Once the stream has started, and before its first message.
    First,
    /// By the next start of this process, which comes once the stream has reached the end of the WAL.
    Next,
}

/// Question for another instance that sends the snapshot before its slot exists.
#[derive(Debug)]
pub(in crate::relay) struct TakerQuestion(Option<Box<Found>>);

/// Question for the offset of a connector that has used the slot before. The slot is free: until then its owner may store a newer
/// one.
#[derive(Debug)]
pub(in crate::relay) struct OffsetQuestion(Place);

/// Question for the state of the slot's last Kafka transaction.
#[derive(Debug)]
pub(in crate::relay) struct StateQuestion(Subject);

/// Question for the offset that is stored for a slot that is missing.
#[derive(Debug)]
pub(in crate::relay) struct OffsetLeftQuestion(());

/// Question for the position in Kafka, and then again for the slot: another outboxd may have had it since, and have stored a
/// position behind the old end of the WAL.
#[derive(Debug)]
pub(in crate::relay) struct PositionQuestion {
    subject: Subject,
    /// Position of the slot.
    slot: Option<Lsn>,
}

/// Result of the comparison. The value of `outboxd.position.accept` is used up now.
#[derive(Debug)]
pub(in crate::relay) struct Compared {
    subject: Subject,
    beginning: Beginning,
    position: Option<Position>,
}

/// Question for a migration of the publication: the existing rows belong to the program that it comes from.
#[derive(Debug)]
pub(in crate::relay) struct HandoverQuestion(Place);

/// A slot that is judged.
#[derive(Debug)]
struct Place {
    found: Box<Found>,
    /// The other instance that sends a snapshot, which has the slot if nothing was streamed from it.
    taker: Option<SlotHolder>,
}

/// A slot or its absence.
#[derive(Debug)]
enum Subject {
    Slot(Place),
    /// With the reason for which only a snapshot may follow.
    Absence(Option<Box<Error>>),
}

impl Judging {
    /// Begins with a slot that may be used, or with its absence.
    pub(in crate::relay) fn of(slot: Option<Slot>, grounds: Grounds<'_>) -> Self {
        match slot.map(|slot| Box::new(Found::made(slot))) {
            Some(found) if !grounds.is_first() || !grounds.comparison.mode.sends_rows() => {
                Place { found, taker: None }.with_offset(grounds)
            }
            // Before the position is read: a snapshot that ends in between has its position by then.
            found => Self::Taker(TakerQuestion(found)),
        }
    }

    /// Begins again with a slot that was moved before the stream started.
    pub(in crate::relay) fn again(found: Box<Found>, confirmed: Lsn, grounds: Grounds<'_>) -> Self {
        Place { found, taker: None }.compared_at(confirmed, grounds)
    }

    fn of_absence(grounds: Grounds<'_>) -> Result<Self, Error> {
        let Comparison { slot, mode, .. } = grounds.comparison;
        grounds.comparison.without_slot()?;
        // A snapshot sends what lies between.
        let closes = matches!(mode, SnapshotMode::Always | SnapshotMode::WhenNeeded);
        if closes || slot.drop_on_stop || !grounds.is_first() {
            return Ok(Self::Position(PositionQuestion { subject: Subject::Absence(None), slot: None }));
        }
        Ok(Self::State(StateQuestion(Subject::Absence(None))))
    }

    fn of_gap(gap: Option<Error>) -> Self {
        Self::Position(PositionQuestion { subject: Subject::Absence(gap.map(Box::new)), slot: None })
    }
}

impl Judged {
    /// Returns the part that decides the step of the start.
    pub(in crate::relay) fn judgement(&self, comparison: &Comparison<'_>) -> Judgement {
        match self {
            Self::Usable(found) => Judgement::Usable {
                is_unused: found.is_unused,
                takes_again: comparison.takes_again(found.stored.as_ref()),
            },
            Self::Missing { .. } => Judgement::Missing,
        }
    }
}

impl Found {
    /// Makes the result for a slot about which nothing else is known.
    pub(in crate::relay) const fn made(slot: Slot) -> Self {
        Self {
            slot,
            stored: None,
            reads_later: false,
            snapshots: None,
            is_where_left: !slot.created,
            is_unused: slot.created,
            unfinished: None,
            position: None,
            snapshot: DueSnapshot::None,
        }
    }
}

impl Grounds<'_> {
    /// Returns whether this is the first session of a process.
    const fn is_first(&self) -> bool {
        self.comparison.known.is_none()
    }

    /// Returns whether a slot from which nothing was streamed is recognised, and matters. Without storage for positions it is not
    /// known.
    const fn recognises_unused(&self) -> bool {
        self.stores_positions && self.is_first() && self.comparison.mode.sends_rows()
    }
}

impl TakerQuestion {
    /// Continues with the other instance, if there is one.
    ///
    /// # Errors
    /// When it is about to create the slot.
    pub(in crate::relay) fn answered(
        self,
        taker: Option<SlotHolder>,
        grounds: Grounds<'_>,
    ) -> Result<Judging, Error> {
        match (self.0, taker) {
            (Some(found), taker) => Ok(Place { found, taker }.with_offset(grounds)),
            (None, Some(taker)) => Err(postgres::Error::SlotActive(taker).into()),
            (None, None) => Judging::of_absence(grounds),
        }
    }
}

impl OffsetQuestion {
    /// Continues with the stored offset, if there is one.
    pub(in crate::relay) fn answered(self, stored: Option<SourceOffset>, grounds: Grounds<'_>) -> Judging {
        let Place { mut found, taker } = self.0;
        let confirmed = found.slot.confirmed_flush_lsn;
        found.stored = stored;
        Place { found, taker }.compared_at(confirmed, grounds)
    }
}

impl StateQuestion {
    /// Continues with the LSN up to which transactions may be in Kafka, if there is a state.
    ///
    /// # Errors
    /// When another instance sends the snapshot that comes before the stream.
    pub(in crate::relay) fn answered(
        self,
        sent_up_to: Option<Lsn>,
        grounds: Grounds<'_>,
    ) -> Result<Judging, Error> {
        match (self.0, sent_up_to) {
            (Subject::Slot(place), None) => Ok(Judging::Handover(HandoverQuestion(place))),
            (Subject::Slot(place), Some(_)) => place.concluded(false),
            (Subject::Absence(_), None) => Ok(Judging::OffsetLeft(OffsetLeftQuestion(()))),
            (Subject::Absence(_), Some(sent_up_to)) => {
                let slot = grounds.comparison.slot.name.to_string();
                Ok(Judging::of_gap(Some(Error::StateWithoutSlot { slot, sent_up_to })))
            }
        }
    }
}

impl OffsetLeftQuestion {
    /// Continues with the progress of Debezium's snapshot in the offset, and the name of its store, if there is an offset.
    pub(in crate::relay) fn answered(
        self,
        left: Option<(SnapshotProgress, String)>,
        grounds: Grounds<'_>,
    ) -> Judging {
        let left = left.filter(|(snapshot, _)| *snapshot != SnapshotProgress::Unfinished);
        let slot = &grounds.comparison.slot.name;
        Judging::of_gap(left.map(|(_, store)| Error::OffsetWithoutSlot { store, slot: slot.to_string() }))
    }
}

impl PositionQuestion {
    /// Returns the position of the slot, if there is one.
    #[cfg(test)]
    pub(in crate::relay) const fn slot(&self) -> Option<Lsn> {
        self.slot
    }

    /// Compares the slot with the position, and with the end of the WAL that was read with the slot afterwards.
    ///
    /// # Errors
    /// When the slot is not where outboxd has left it, or the server is not the one that it was read from.
    pub(in crate::relay) fn answered(
        self,
        position: Option<Position>,
        wal_end: Option<Lsn>,
        grounds: Grounds<'_>,
        now: Now,
    ) -> Result<Compared, Error> {
        let Site { origin, database, in_recovery } = grounds.site;
        let at = self.slot.zip(wal_end);
        if let (true, Some(position), Some((_, replayed))) = (*in_recovery, &position, at) {
            check_replay(replayed, &position.origin(), position.lsn, origin)?;
        }
        let stored = match &self.subject {
            Subject::Slot(place) => place.found.stored.as_ref(),
            Subject::Absence(_) => None,
        };
        let found = FoundSlot { origin, database: *database, at, stored };
        let beginning = grounds.comparison.with_position(position.as_ref(), found, now)?;
        Ok(Compared { subject: self.subject, beginning, position })
    }
}

impl Compared {
    /// Continues with the result of the comparison.
    ///
    /// # Errors
    /// When the slot is missing, and only a snapshot may follow.
    pub(in crate::relay) fn next(self, grounds: Grounds<'_>) -> Result<Judging, Error> {
        let Self { subject, beginning, position } = self;
        match subject {
            Subject::Slot(place) => place.compared(beginning, position.as_ref(), grounds),
            Subject::Absence(Some(gap)) if beginning == Beginning::GoesOn => Err(*gap),
            Subject::Absence(_) => {
                let Site { origin, database, .. } = grounds.site;
                let unfinished = position
                    .filter(|_| beginning == Beginning::GoesOn)
                    .and_then(|kept| grounds.comparison.unfinished(&kept, origin, *database));
                let is_accepted = beginning == Beginning::Accepted;
                Ok(Judging::Judged(Judged::Missing { unfinished, is_accepted }))
            }
        }
    }
}

impl HandoverQuestion {
    /// Ends with whether the publication belongs to a migration.
    ///
    /// # Errors
    /// When another instance sends the snapshot that comes before the stream.
    pub(in crate::relay) fn answered(self, is_of_migration: bool) -> Result<Judging, Error> {
        self.0.concluded(!is_of_migration)
    }
}

impl Place {
    fn with_offset(self, grounds: Grounds<'_>) -> Judging {
        if grounds.is_first() {
            return Judging::Offset(OffsetQuestion(self));
        }
        let confirmed = self.found.slot.confirmed_flush_lsn;
        self.compared_at(confirmed, grounds)
    }

    /// Decides whether the position is read before the stream starts.
    fn compared_at(mut self, confirmed: Lsn, grounds: Grounds<'_>) -> Judging {
        let origin = &grounds.site.origin;
        self.found.reads_later = !grounds.comparison.needs_position(Some(confirmed), origin);
        if self.found.reads_later {
            return Judging::Judged(Judged::Usable(self.found));
        }
        Judging::Position(PositionQuestion { subject: Subject::Slot(self), slot: Some(confirmed) })
    }

    fn compared(
        mut self,
        beginning: Beginning,
        position: Option<&Position>,
        grounds: Grounds<'_>,
    ) -> Result<Judging, Error> {
        let Grounds { comparison, site, .. } = grounds;
        self.found.is_where_left = beginning == Beginning::GoesOn;
        if let Some(position) = position.filter(|_| self.found.is_where_left) {
            self.found.unfinished = comparison.unfinished(position, &site.origin, site.database);
            self.found.snapshots = comparison.snapshots(position, &site.origin, site.database);
            self.found.position = Some(Box::new(position.clone()));
        }
        if self.found.stored.is_some() || !grounds.recognises_unused() {
            return self.concluded(false);
        }
        match (beginning, position.map(|position| position.phase)) {
            (Beginning::Anew, _) | (Beginning::GoesOn, Some(Phase::Snapshot)) => {
                Ok(Judging::Handover(HandoverQuestion(self)))
            }
            (Beginning::GoesOn, None) => Ok(Judging::State(StateQuestion(Subject::Slot(self)))),
            (Beginning::Accepted, _) | (Beginning::GoesOn, Some(Phase::Streaming | Phase::Dropped)) => {
                self.concluded(false)
            }
        }
    }

    fn concluded(mut self, is_unused: bool) -> Result<Judging, Error> {
        self.found.is_unused = is_unused;
        match self.taker.filter(|_| is_unused) {
            Some(taker) => Err(postgres::Error::SlotActive(taker).into()),
            None => Ok(Judging::Judged(Judged::Usable(self.found))),
        }
    }
}
