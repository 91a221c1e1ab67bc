//! What a start does about the slot: goes on from the one that is there, makes one, or refuses.

use std::sync::Arc;

use super::capture::CapturedTables;
use super::clock::Now;
use super::comparison::{Beginning, Comparison, FoundSlot, KeptSnapshots, Known};
use super::error::Error;
use super::last_state;
use super::offsets::Offsets;
use super::parts::RelayParts;
use super::position::{Position, Unfinished};
use super::position_store::Positions;
use super::preflight::{Capture, Preflight, Site};
use super::standby;
use crate::error::chain;
use crate::postgres::{
    self, Slot, SlotFacts, SlotHolder, SlotOptions, SnapshotMode, TlsSetup, application_base,
    shown_application,
};
use crate::source_offset::{SnapshotProgress, SourceOffset};
use crate::telemetry::{Metrics, Status};
use crate::wal::Lsn;

/// What this attempt has made and would have to undo.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Made {
    pub(super) publication: bool,
    pub(super) slot: bool,
    /// The rows that are in the tables were sent; that is not undone.
    pub(super) snapshot: bool,
}

/// What opening a link needs besides the servers.
#[derive(Clone, Copy)]
pub(super) struct Opening<'o> {
    pub(super) parts: &'o Arc<RelayParts>,
    pub(super) tls: &'o TlsSetup,
    pub(super) status: &'o Status,
    pub(super) metrics: &'o Metrics,
    /// Where Debezium keeps its offset.
    pub(super) offsets: Option<&'o Offsets>,
    /// Where the relay keeps its position.
    pub(super) positions: Option<&'o Positions>,
    /// This process has waited for the slot: it was there.
    pub(super) saw_slot: bool,
    /// What an earlier session of this process has left; the start is over.
    pub(super) known: Option<&'o Known>,
    /// Every table that this process has captured.
    pub(super) captured: &'o CapturedTables,
}

/// A slot to go on from.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) slot: Slot,
    /// The offset that is stored for it.
    pub(super) stored: Option<SourceOffset>,
    /// The position is read when the stream has started: this process knows where it has left the slot.
    pub(super) reads_later: bool,
    /// How far incremental snapshots were, as the position says.
    pub(super) snapshots: Option<KeptSnapshots>,
    /// It stands where outboxd has left it, as far as that is known.
    pub(super) is_where_left: bool,
}

/// What was found.
enum Judged {
    GoesOn(Box<Found>),
    /// There is no slot, and need not be. A snapshot may have been interrupted.
    Missing(Option<Unfinished>),
}

impl Found {
    /// Of a slot about which nothing else is known.
    const fn made(slot: Slot) -> Self {
        Self { slot, stored: None, reads_later: false, snapshots: None, is_where_left: !slot.created }
    }
}

impl Opening<'_> {
    /// Adopts the slot, with the offset that is stored for it, or makes one; a new one begins with the snapshot, if there
    /// will be one.
    pub(super) async fn ensure_slot(
        self,
        preflight: &mut Preflight,
        capture: &Capture,
        made: &mut Made,
    ) -> Result<Found, Error> {
        let options = &self.parts.postgres;
        let mode = options.snapshot.mode;
        let facts = preflight.sql.slot(&options.slot.name).await?;
        let (recovering, unfinished) = match self.judge(facts.as_ref(), preflight).await {
            Ok(Judged::GoesOn(found)) => {
                self.warn_of_failover(facts.as_ref());
                if self.known.is_none() && mode.takes_again(found.stored.as_ref()) {
                    self.snapshot(preflight, capture, None, None).await?;
                    made.snapshot = true;
                }
                self.drop_aside(preflight).await;
                return Ok(*found);
            }
            Ok(Judged::Missing(unfinished)) => (false, unfinished),
            Err(error) if error.is_lost_slot() && options.recovers() => {
                self.give_up(facts.as_ref(), &error, preflight).await?;
                (true, None)
            }
            Err(error) => return Err(error),
        };
        if mode == SnapshotMode::NoData && !recovering {
            let Preflight { connection, sql, server, .. } = preflight;
            let slot = options.slot.create(connection, sql, server).await?;
            made.slot = true;
            return Ok(Found::made(slot));
        }
        let slot = self.make_with_snapshot(preflight, capture, made, unfinished).await?;
        if recovering {
            self.metrics.slot_recovered();
            tracing::warn!(slot = %options.slot.name, lsn = %slot.confirmed_flush_lsn, "the slot is made anew, and every row that is in the table is sent");
        }
        Ok(Found::made(slot))
    }

    /// Warns of a slot that no standby has, where `slot.failover` asks for one.
    fn warn_of_failover(self, facts: Option<&SlotFacts>) {
        let slot = &self.parts.postgres.slot;
        let Some(lacking) = facts.and_then(|facts| slot.lacks_failover(facts)) else { return };
        if self.status.warn(lacking.problem.clone()) {
            tracing::warn!(slot = %slot.name, to_fix = lacking.cure, "{}", lacking.problem);
        }
    }

    /// Whether the slot that is there can be gone on from.
    async fn judge(self, facts: Option<&SlotFacts>, preflight: &Preflight) -> Result<Judged, Error> {
        let options = &self.parts.postgres;
        let Some(facts) = facts else {
            if let Some(taker) = self.snapshot_taker(preflight).await? {
                return Err(postgres::Error::SlotActive(taker).into());
            }
            self.comparison().without_slot()?;
            let gap = match self.refuse_gap(options.snapshot.mode).await {
                Err(error) if !error.is_lost_slot() => return Err(error),
                gap => gap,
            };
            let site = preflight.site();
            let (beginning, position) = self.compare(None, None, &site).await?;
            return match beginning {
                Beginning::Anew => Ok(Judged::Missing(None)),
                Beginning::Accepted => self.give_up_position(preflight).await.map(|()| Judged::Missing(None)),
                Beginning::GoesOn => {
                    let unfinished = position
                        .and_then(|kept| self.comparison().unfinished(&kept, &site.origin, site.database));
                    gap.map(|()| Judged::Missing(unfinished))
                }
            };
        };
        let slot = options.slot.adopt(facts, &options.server.database)?;
        let mut found = Found { stored: self.stored_offset(facts).await?, ..Found::made(slot) };
        self.check_place(&mut found, slot.confirmed_flush_lsn, &preflight.site()).await?;
        Ok(Judged::GoesOn(Box::new(found)))
    }

    /// Refuses a slot that is not where outboxd has left it.
    pub(super) async fn check_place(
        self,
        found: &mut Found,
        confirmed: Lsn,
        site: &Site,
    ) -> Result<(), Error> {
        let needs_position = self.comparison().needs_position(Some(confirmed), &site.origin);
        if needs_position {
            let (beginning, position) = self.compare(Some(confirmed), found.stored.as_ref(), site).await?;
            found.is_where_left = beginning == Beginning::GoesOn;
            let position = position.filter(|_| found.is_where_left);
            found.snapshots = position
                .and_then(|position| self.comparison().snapshots(&position, &site.origin, site.database));
        }
        found.reads_later = !needs_position;
        Ok(())
    }

    /// Compares what is there with the position that is kept in Kafka.
    async fn compare(
        self,
        slot: Option<Lsn>,
        stored: Option<&SourceOffset>,
        Site { sql, origin, database, in_recovery }: &Site,
    ) -> Result<(Beginning, Option<Position>), Error> {
        let position = match self.positions {
            Some(positions) => positions.read().await?,
            None => None,
        };
        // Asked for now: another outboxd may have had the slot since, and have kept a position behind the old end.
        let facts = sql.slot(&self.parts.postgres.slot.name).await?;
        let at = slot.zip(facts.map(|facts| facts.server_lsn));
        if let (true, Some(position), Some((_, replayed))) = (*in_recovery, &position, at) {
            standby::check_replay(replayed, (&position.origin(), position.lsn), origin)?;
        }
        let found = FoundSlot { origin, database: *database, at, stored };
        let beginning = self.comparison().with_position(position.as_ref(), found, Now::read())?;
        if let (Some(positions), Some(accept)) = (self.positions, self.parts.relay.position.accept) {
            positions.use_up(accept);
        }
        Ok((beginning, position))
    }

    pub(super) fn comparison(&self) -> Comparison<'_> {
        let postgres = &self.parts.postgres;
        Comparison {
            slot: &postgres.slot,
            mode: postgres.snapshot.mode,
            database: &postgres.server.database,
            tables: &self.parts.tables,
            accept: self.parts.relay.position.accept,
            known: self.known,
            saw_slot: self.saw_slot,
            captured: self.captured,
        }
    }

    /// The slot is not there yet because another instance of ours sends the snapshot that comes before it.
    async fn snapshot_taker(self, preflight: &Preflight) -> Result<Option<SlotHolder>, Error> {
        let SlotOptions { name, peer, .. } = &self.parts.postgres.slot;
        let taker = preflight.sql.snapshot_taker(&application_base(name.as_str())).await?;
        Ok(taker.map(|(pid, application)| SlotHolder {
            slot: name.to_string(),
            pid,
            other: peer.other(&application),
            application: shown_application(&application).to_owned(),
            client: String::new(),
            has_slot: false,
        }))
    }

    /// A position that the user has given up must not be compared with the slot that is made now. Said before it is made: a
    /// start that is broken off then, or may not write positions, leaves nothing that the next one refuses.
    async fn give_up_position(self, preflight: &Preflight) -> Result<(), Error> {
        let Some(positions) = self.positions else { return Ok(()) };
        let mut position = self.position(preflight, Lsn::ZERO).given_up();
        positions.begin(&mut position);
        positions.write(&position).await
    }

    /// The position of a slot that stands there.
    pub(super) fn position(self, preflight: &Preflight, lsn: Lsn) -> Position {
        let postgres = &self.parts.postgres;
        let database = (postgres.server.database.as_str(), preflight.server.database);
        Position::at(lsn, &preflight.origin(), database, postgres.slot.name.as_str())
    }

    /// Drops what is left of a lost slot, and says what may be missing then.
    async fn give_up(
        self,
        facts: Option<&SlotFacts>,
        why: &Error,
        preflight: &Preflight,
    ) -> Result<(), Error> {
        let slot = &self.parts.postgres.slot;
        let confirmed = facts.and_then(|facts| facts.confirmed_flush_lsn);
        let sent_up_to = self.known.map(|known| known.to).or(confirmed).map(|lsn| lsn.to_string());
        tracing::error!(
            slot = %slot.name, error = chain(why), sent_up_to, wal_end = %preflight.wal_end,
            "the slot is lost: all rows that are in the table are sent, also those that were sent before. \
             Rows that committed after sent_up_to and were deleted before now are missing"
        );
        if facts.is_some() {
            slot.drop_slot(&preflight.sql).await?;
        }
        Ok(())
    }

    /// The offset of a connector that has used the slot before us. Read once the slot is free: until then its owner may
    /// store a newer one.
    async fn stored_offset(self, slot: &SlotFacts) -> Result<Option<SourceOffset>, Error> {
        let Some(offsets) = self.offsets.filter(|_| self.known.is_none()) else { return Ok(None) };
        let stored = offsets.read().await?;
        let confirmed = slot.confirmed_flush_lsn.unwrap_or_default();
        match stored.as_ref().map(SourceOffset::furthest) {
            Some(offset) if offset < confirmed => {
                tracing::warn!(
                    store = offsets.store(), %offset, slot_at = %confirmed,
                    "the slot stands beyond the stored offset. After a crash this is normal. If there was \
                     no crash, somebody has moved the slot, and rows that were written in between are not \
                     sent"
                );
                Ok(stored)
            }
            Some(offset) if offset > slot.server_lsn => {
                Err(Error::OffsetAhead { store: offsets.store(), offset, wal_end: slot.server_lsn })
            }
            _ => Ok(stored),
        }
    }

    /// A slot that is made now begins behind what an offset was stored for, or what the last Kafka transaction says. Only a
    /// snapshot sends what lies between.
    async fn refuse_gap(self, mode: SnapshotMode) -> Result<(), Error> {
        let slot = &self.parts.postgres.slot;
        let closes = matches!(mode, SnapshotMode::Always | SnapshotMode::WhenNeeded);
        if closes || slot.drop_on_stop || self.known.is_some() {
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
}

impl SnapshotMode {
    /// Whether a snapshot is sent although there is a slot: at every start, or because Debezium has not finished its own.
    fn takes_again(self, stored: Option<&SourceOffset>) -> bool {
        let unfinished = stored.is_some_and(|stored| stored.snapshot == SnapshotProgress::Unfinished);
        match self {
            Self::Always => true,
            Self::Initial | Self::WhenNeeded => unfinished,
            Self::NoData | Self::InitialOnly => false,
        }
    }
}
