//! Judgement of the slot: whether a start can continue from it, or has to create one. The start acts on it, and the commands that
//! predict the start make the same one.

use std::sync::Arc;
use std::time::Duration;

use crate::postgres::{
    self, Slot, SlotFacts, SlotHolder, SlotOptions, SnapshotMode, Sql, application_base, shown_application,
};
use crate::relay::capture::preflight::Site;
use crate::relay::capture::standby;
use crate::relay::error::Error;
use crate::relay::parts::RelayParts;
use crate::relay::progress::comparison::{Beginning, Comparison, FoundSlot, StoredSnapshots};
use crate::relay::progress::last_state;
use crate::relay::progress::offsets::Offsets;
use crate::relay::progress::position::{Phase, Position, Unfinished};
use crate::relay::progress::position_store::{Positions, peek_position};
use crate::relay::time::clock::Now;
use crate::source_offset::{SnapshotProgress, SourceOffset};
use crate::wal::Lsn;

/// Patience of a command with Kafka.
const COMMAND_PATIENCE: Duration = Duration::from_secs(5);

/// Sources of a judgement.
#[derive(Clone, Copy)]
pub(in crate::relay) struct SlotJudge<'j> {
    pub(in crate::relay) parts: &'j Arc<RelayParts>,
    pub(in crate::relay) sql: &'j Sql,
    /// Debezium's offset storage.
    pub(in crate::relay) offsets: Option<&'j Offsets>,
    pub(in crate::relay) asker: Asker<'j>,
    pub(in crate::relay) comparison: Comparison<'j>,
}

/// Client that asks: it decides how the stored position is read.
#[derive(Clone, Copy)]
pub(in crate::relay) enum Asker<'j> {
    /// A relay at its start, with its storage of positions: what it reads, it takes over.
    Relay(Option<&'j Positions>),
    /// A command, which changes nothing.
    Command,
}

/// Verdict on the slot.
pub(in crate::relay) enum Judged {
    /// It can be continued from.
    Usable(Box<Found>),
    /// It is missing, and not required.
    Missing {
        /// Progress of an interrupted snapshot.
        unfinished: Option<Unfinished>,
        /// The user has accepted that the stored position counts no more.
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
    /// The position is read when the stream has started: this process knows where it has left the slot.
    pub(in crate::relay) reads_later: bool,
    /// Progress of incremental snapshots in the position.
    pub(in crate::relay) snapshots: Option<StoredSnapshots>,
    /// True if the slot is where outboxd left it, as far as that is known.
    pub(in crate::relay) is_where_left: bool,
    /// No stored position, offset or state shows that it was streamed from.
    pub(in crate::relay) is_unused: bool,
    /// Progress of an interrupted snapshot.
    pub(in crate::relay) unfinished: Option<Unfinished>,
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
        }
    }
}

impl SlotJudge<'_> {
    /// Judges the slot with these facts, or its absence.
    ///
    /// # Errors
    /// When a start must not continue, or a server does not answer.
    pub(in crate::relay) async fn judge(
        self,
        facts: Option<&SlotFacts>,
        site: &Site,
    ) -> Result<Judged, Error> {
        match facts {
            Some(facts) => self.of_slot(facts, site).await.map(|found| Judged::Usable(Box::new(found))),
            None => self.of_absence(site).await,
        }
    }

    /// Returns the part of a verdict that decides the step of the start. After an earlier session of this process no snapshot comes
    /// first.
    pub(in crate::relay) fn judgement(self, judged: &Judged) -> Judgement {
        match judged {
            Judged::Usable(found) => Judgement::Usable {
                is_unused: found.is_unused,
                takes_again: self.comparison.known.is_none()
                    && self.comparison.mode.takes_again(found.stored.as_ref()),
            },
            Judged::Missing { .. } => Judgement::Missing,
        }
    }

    async fn of_slot(self, facts: &SlotFacts, site: &Site) -> Result<Found, Error> {
        let options = &self.parts.postgres;
        let slot = options.slot.adopt(facts, &options.server.database)?;
        // Before the position is read: a snapshot that ends in between has its position by then.
        let taker = match self.is_first() && options.snapshot.mode.sends_rows() {
            true => self.snapshot_taker().await?,
            false => None,
        };
        let mut found = Found { stored: self.stored_offset(facts).await?, ..Found::made(slot) };
        self.check_place(&mut found, slot.confirmed_flush_lsn, site).await?;
        if let Some(taker) = taker.filter(|_| found.is_unused) {
            return Err(postgres::Error::SlotActive(taker).into());
        }
        Ok(found)
    }

    async fn of_absence(self, site: &Site) -> Result<Judged, Error> {
        if let Some(taker) = self.snapshot_taker().await? {
            return Err(postgres::Error::SlotActive(taker).into());
        }
        self.comparison.without_slot()?;
        let gap = match self.refuse_gap().await {
            Err(error) if !error.is_lost_slot() => return Err(error),
            gap => gap,
        };
        let (beginning, position) = self.compare(None, None, site).await?;
        if beginning == Beginning::GoesOn {
            gap?;
        }
        let unfinished = position
            .filter(|_| beginning == Beginning::GoesOn)
            .and_then(|kept| self.comparison.unfinished(&kept, &site.origin, site.database));
        Ok(Judged::Missing { unfinished, is_accepted: beginning == Beginning::Accepted })
    }

    /// Refuses a slot that is not where outboxd has left it.
    pub(in crate::relay) async fn check_place(
        self,
        found: &mut Found,
        confirmed: Lsn,
        site: &Site,
    ) -> Result<(), Error> {
        found.reads_later = !self.comparison.needs_position(Some(confirmed), &site.origin);
        if found.reads_later {
            return Ok(());
        }
        let (beginning, position) = self.compare(Some(confirmed), found.stored.as_ref(), site).await?;
        found.is_where_left = beginning == Beginning::GoesOn;
        found.is_unused = found.stored.is_none() && self.is_unused(beginning, position.as_ref()).await?;
        let Some(position) = position.filter(|_| found.is_where_left) else { return Ok(()) };
        found.unfinished = self.comparison.unfinished(&position, &site.origin, site.database);
        found.snapshots = self.comparison.snapshots(&position, &site.origin, site.database);
        Ok(())
    }

    /// Compares what is there with the position that is stored in Kafka.
    async fn compare(
        self,
        slot: Option<Lsn>,
        stored: Option<&SourceOffset>,
        Site { origin, database, in_recovery }: &Site,
    ) -> Result<(Beginning, Option<Position>), Error> {
        let position = self.read_position().await?;
        // Asked for now: another outboxd may have had the slot since, and have stored a position behind the old end.
        let facts = self.sql.slot(&self.parts.postgres.slot.name).await?;
        let at = slot.zip(facts.map(|facts| facts.server_lsn));
        if let (true, Some(position), Some((_, replayed))) = (*in_recovery, &position, at) {
            standby::check_replay(replayed, (&position.origin(), position.lsn), origin)?;
        }
        let found = FoundSlot { origin, database: *database, at, stored };
        let beginning = self.comparison.with_position(position.as_ref(), found, Now::read())?;
        if let (Asker::Relay(Some(positions)), Some(accept)) = (self.asker, self.parts.relay.position.accept)
        {
            positions.use_up(accept);
        }
        Ok((beginning, position))
    }

    async fn read_position(self) -> Result<Option<Position>, Error> {
        match self.asker {
            Asker::Relay(Some(positions)) => positions.read().await,
            Asker::Relay(None) => Ok(None),
            Asker::Command => peek_position(self.parts, COMMAND_PATIENCE).await,
        }
    }

    /// Returns whether this is the first session of a process.
    const fn is_first(self) -> bool {
        self.comparison.known.is_none()
    }

    /// Returns whether nothing in Kafka shows that the slot was streamed from, or that its first snapshot was completed. Without
    /// storage for positions that is not known.
    async fn is_unused(self, beginning: Beginning, position: Option<&Position>) -> Result<bool, Error> {
        let is_stored = match self.asker {
            Asker::Relay(positions) => positions.is_some_and(Positions::is_on),
            Asker::Command => self.parts.relay.position.topic.is_some(),
        };
        if !is_stored || !self.is_first() || !self.comparison.mode.sends_rows() {
            return Ok(false);
        }
        let is_unused = match (beginning, position) {
            (Beginning::Anew, _) => true,
            (Beginning::Accepted, _) => false,
            (Beginning::GoesOn, Some(position)) => position.phase == Phase::Snapshot,
            (Beginning::GoesOn, None) => last_state::read(self.parts).await?.is_none(),
        };
        if !is_unused {
            return Ok(false);
        }
        // The rows that were there belong to the program that a migration comes from.
        let publication = self.sql.publication(&self.parts.postgres.publication.name).await?;
        Ok(publication.is_none_or(|publication| publication.handover.is_none()))
    }

    /// Refuses to create a slot that begins behind a stored offset or the position of the last Kafka transaction: only a snapshot
    /// sends what lies between.
    async fn refuse_gap(self) -> Result<(), Error> {
        let slot = &self.parts.postgres.slot;
        let closes = matches!(self.comparison.mode, SnapshotMode::Always | SnapshotMode::WhenNeeded);
        if closes || slot.drop_on_stop || !self.is_first() {
            return Ok(());
        }
        if let Some(state) = last_state::read(self.parts).await? {
            let (slot, sent_up_to) = (slot.name.to_string(), state.place.furthest());
            return Err(Error::StateWithoutSlot { slot, sent_up_to });
        }
        let Some(offsets) = self.offsets else { return Ok(()) };
        match offsets.read().await? {
            Some(stored) if stored.snapshot != SnapshotProgress::Unfinished => {
                Err(Error::OffsetWithoutSlot { store: offsets.store(), slot: slot.name.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Returns the other instance that sends the snapshot that comes before the slot, if there is one: then the slot does not exist
    /// yet. A command is asked about a start that comes when no other instance runs.
    async fn snapshot_taker(self) -> Result<Option<SlotHolder>, Error> {
        if matches!(self.asker, Asker::Command) {
            return Ok(None);
        }
        let SlotOptions { name, peer, .. } = &self.parts.postgres.slot;
        let taker = self.sql.snapshot_taker(&application_base(name.as_str())).await?;
        Ok(taker.map(|(pid, application)| SlotHolder {
            slot: name.to_string(),
            pid,
            other: peer.other(&application),
            application: shown_application(&application).to_owned(),
            client: String::new(),
            has_slot: false,
        }))
    }

    /// Reads the offset of a connector that has used the slot before. It is read once the slot is free: until
    /// then its owner may store a newer one.
    async fn stored_offset(self, slot: &SlotFacts) -> Result<Option<SourceOffset>, Error> {
        let Some(offsets) = self.offsets.filter(|_| self.is_first()) else { return Ok(None) };
        offsets.read_for(slot).await
    }
}
