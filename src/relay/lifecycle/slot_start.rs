//! Start with regard to the slot: continues from the existing one, creates one, or refuses.

use std::sync::Arc;

use crate::error::chain;
use crate::postgres::{
    self, Options, Slot, SlotFacts, SlotHolder, SlotOptions, SnapshotMode, Sql, TlsSetup, application_base,
    shown_application,
};
use crate::relay::capture::captured::CapturedTables;
use crate::relay::capture::preflight::{Capture, Preflight, Site};
use crate::relay::capture::standby;
use crate::relay::error::Error;
use crate::relay::lifecycle::next_start::{Judgement, StartStep, is_unused, refuse_gap};
use crate::relay::parts::RelayParts;
use crate::relay::progress::comparison::{Beginning, Comparison, FoundSlot, Known, StoredSnapshots};
use crate::relay::progress::offsets::Offsets;
use crate::relay::progress::position::{Position, Unfinished};
use crate::relay::progress::position_store::Positions;
use crate::relay::time::clock::Now;
use crate::source_offset::SourceOffset;
use crate::telemetry::{Metrics, Status};
use crate::wal::Lsn;

/// Objects that this attempt has created and would have to undo.
#[derive(Debug, Default, Clone, Copy)]
pub(in crate::relay) struct Made {
    pub(in crate::relay) publication: bool,
    pub(in crate::relay) slot: bool,
    /// The rows that are in the tables were sent; that is not undone.
    pub(in crate::relay) snapshot: bool,
}

/// Inputs of opening a link besides the servers.
#[derive(Clone, Copy)]
pub(in crate::relay) struct Opening<'o> {
    pub(in crate::relay) parts: &'o Arc<RelayParts>,
    pub(in crate::relay) tls: &'o TlsSetup,
    pub(in crate::relay) status: &'o Status,
    pub(in crate::relay) metrics: &'o Metrics,
    /// Debezium's offset storage.
    pub(in crate::relay) offsets: Option<&'o Offsets>,
    /// Storage of the relay's position.
    pub(in crate::relay) positions: Option<&'o Positions>,
    /// True if this process has waited for the slot, which therefore existed.
    pub(in crate::relay) saw_slot: bool,
    /// Result of an earlier session of this process; with it the start is over.
    pub(in crate::relay) known: Option<&'o Known>,
    /// Every table that this process has captured.
    pub(in crate::relay) captured: &'o CapturedTables,
}

/// A slot to go on from.
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

/// Verdict on the slot.
enum Judged {
    GoesOn(Box<Found>),
    /// Missing, and not required. A snapshot may have been interrupted.
    Missing(Option<Unfinished>),
}

impl Found {
    /// Makes the result for a slot about which nothing else is known.
    const fn made(slot: Slot) -> Self {
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

impl Opening<'_> {
    /// Adopts the slot, with the offset that is stored for it, or makes one. A new one, and one that nothing was streamed from,
    /// begins with the snapshot, if there will be one.
    pub(in crate::relay) async fn ensure_slot(
        self,
        preflight: &mut Preflight,
        capture: &Capture,
        made: &mut Made,
    ) -> Result<Found, Error> {
        let options = &self.parts.postgres;
        let facts = preflight.sql.slot(&options.slot.name).await?;
        let judged = self.judge(facts.as_ref(), preflight).await;
        let judgement = judged.as_ref().map(|judged| self.judgement(judged));
        let step = StartStep::of(options.snapshot.mode, options.recovers(), judgement);
        let unfinished = match (step, judged) {
            (StartStep::SnapshotBeside, Ok(Judged::GoesOn(found))) => {
                self.warn_of_failover(facts.as_ref());
                return self.snapshot_beside(preflight, capture, made, *found).await;
            }
            (step, Ok(Judged::GoesOn(found))) => {
                self.warn_of_failover(facts.as_ref());
                if step == StartStep::SnapshotAgain {
                    self.snapshot(preflight, capture, None, None).await?;
                    made.snapshot = true;
                }
                self.warn_of_unsent(&found);
                self.drop_aside(preflight).await;
                return Ok(*found);
            }
            (StartStep::Create, Ok(Judged::Missing(_))) => {
                let Preflight { connection, sql, server, .. } = preflight;
                let slot = options.slot.create(connection, sql, server).await?;
                made.slot = true;
                return Ok(Found::made(slot));
            }
            (_, Ok(Judged::Missing(unfinished))) => unfinished,
            (StartStep::Recover, Err(error)) => {
                self.give_up(facts.as_ref(), &error, preflight).await?;
                None
            }
            (_, Err(error)) => return Err(error),
        };
        let slot = self.make_with_snapshot(preflight, capture, made, unfinished).await?;
        if step == StartStep::Recover {
            self.metrics.slot_recovered();
            tracing::warn!(
                slot = %options.slot.name, lsn = %slot.confirmed_flush_lsn,
                "creating the slot again; all rows of the table are sent"
            );
        }
        Ok(Found::made(slot))
    }

    /// Converts a verdict on the slot. An earlier session of this process has begun: no snapshot comes first.
    fn judgement(self, judged: &Judged) -> Judgement {
        match judged {
            Judged::GoesOn(found) => Judgement::Usable {
                is_unused: found.is_unused,
                takes_again: self.known.is_none()
                    && self.parts.postgres.snapshot.mode.takes_again(found.stored.as_ref()),
            },
            Judged::Missing(_) => Judgement::Missing,
        }
    }

    /// Warns of a slot that no standby has, where `slot.failover` asks for one.
    fn warn_of_failover(self, facts: Option<&SlotFacts>) {
        let slot = &self.parts.postgres.slot;
        let Some(lacking) = facts.and_then(|facts| slot.lacks_failover(facts)) else { return };
        if self.status.warn(lacking.problem.clone()) {
            tracing::warn!(slot = %slot.name, fix = lacking.cure, "{}", lacking.problem);
        }
    }

    /// Warns that existing rows of the tables are not sent, if nothing is stored that could prove that they
    /// were.
    fn warn_of_unsent(self, found: &Found) {
        let Options { snapshot, slot, .. } = &self.parts.postgres;
        let is_remembered = self.known.is_some()
            || found.stored.is_some()
            || self.parts.relay.transactions.is_some()
            || self.positions.is_some_and(Positions::is_on);
        if matches!(snapshot.mode, SnapshotMode::Initial | SnapshotMode::WhenNeeded) && !is_remembered {
            tracing::warn!(
                slot = %slot.name,
                fix = "start once with -X snapshot.mode=always if they were not, and set outboxd.position.topic; or set snapshot.mode=no_data",
                "no position is stored, so outboxd cannot know if the existing rows were sent: sending no snapshot"
            );
        }
    }

    /// Judges whether the relay can continue from the existing slot.
    async fn judge(self, facts: Option<&SlotFacts>, preflight: &Preflight) -> Result<Judged, Error> {
        let options = &self.parts.postgres;
        let Some(facts) = facts else {
            if let Some(taker) = self.snapshot_taker(preflight).await? {
                return Err(postgres::Error::SlotActive(taker).into());
            }
            self.comparison().without_slot()?;
            let gap = match refuse_gap(self.parts, self.offsets, self.known.is_some()).await {
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
        // Before the position is read: a snapshot that ends in between has its position by then.
        let taker = match options.snapshot.mode.sends_rows() && self.known.is_none() {
            true => self.snapshot_taker(preflight).await?,
            false => None,
        };
        let mut found = Found { stored: self.stored_offset(facts).await?, ..Found::made(slot) };
        self.check_place(&mut found, slot.confirmed_flush_lsn, &preflight.site()).await?;
        if let Some(taker) = taker.filter(|_| found.is_unused) {
            return Err(postgres::Error::SlotActive(taker).into());
        }
        Ok(Judged::GoesOn(Box::new(found)))
    }

    /// Refuses a slot that is not where outboxd has left it.
    pub(in crate::relay) async fn check_place(
        self,
        found: &mut Found,
        confirmed: Lsn,
        site: &Site,
    ) -> Result<(), Error> {
        let needs_position = self.comparison().needs_position(Some(confirmed), &site.origin);
        if needs_position {
            let (beginning, position) = self.compare(Some(confirmed), found.stored.as_ref(), site).await?;
            found.is_where_left = beginning == Beginning::GoesOn;
            found.is_unused =
                found.stored.is_none() && self.is_unused(beginning, position.as_ref(), &site.sql).await?;
            let position = position.filter(|_| found.is_where_left);
            found.unfinished = position
                .as_ref()
                .and_then(|kept| self.comparison().unfinished(kept, &site.origin, site.database));
            found.snapshots = position
                .and_then(|position| self.comparison().snapshots(&position, &site.origin, site.database));
        }
        found.reads_later = !needs_position;
        Ok(())
    }

    /// Returns whether nothing in Kafka shows that the slot was streamed from, or that its first snapshot was
    /// completed. Without storage for positions that is not known.
    async fn is_unused(
        self,
        beginning: Beginning,
        position: Option<&Position>,
        sql: &Sql,
    ) -> Result<bool, Error> {
        let is_asked = self.known.is_none() && self.parts.postgres.snapshot.mode.sends_rows();
        if !is_asked || !self.positions.is_some_and(Positions::is_on) {
            return Ok(false);
        }
        is_unused(self.parts, beginning, position, sql).await
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

    pub(in crate::relay) fn comparison(&self) -> Comparison<'_> {
        Comparison {
            known: self.known,
            saw_slot: self.saw_slot,
            ..Comparison::of_parts(self.parts, self.captured)
        }
    }

    /// Returns the other instance that sends the snapshot that comes before the slot, if there is one: then
    /// the slot does not exist yet.
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

    /// Marks a stored position as given up by the user, so that it is not compared with the slot that is
    /// created now. This is written before the slot is created: a start that is interrupted then, or may not
    /// write positions, leaves nothing that the next one refuses.
    async fn give_up_position(self, preflight: &Preflight) -> Result<(), Error> {
        let Some(positions) = self.positions else { return Ok(()) };
        let mut position = self.position(preflight, Lsn::ZERO).given_up();
        positions.begin(&mut position);
        positions.write(&position).await
    }

    /// Makes the position of a slot at this LSN.
    pub(in crate::relay) fn position(self, preflight: &Preflight, lsn: Lsn) -> Position {
        let postgres = &self.parts.postgres;
        let database = (postgres.server.database.as_str(), preflight.server.database);
        Position::at(lsn, &preflight.origin(), database, postgres.slot.name.as_str())
    }

    /// Drops what is left of a lost slot, and reports what may be missing then.
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
            "the slot is lost: all rows of the table are sent, also those that were sent before. Rows \
             that committed after sent_up_to and were deleted before now are missing"
        );
        if facts.is_some() {
            slot.drop_slot(&preflight.sql).await?;
        }
        Ok(())
    }

    /// Reads the offset of a connector that has used the slot before. It is read once the slot is free: until
    /// then its owner may store a newer one.
    async fn stored_offset(self, slot: &SlotFacts) -> Result<Option<SourceOffset>, Error> {
        let Some(offsets) = self.offsets.filter(|_| self.known.is_none()) else { return Ok(None) };
        offsets.read_for(slot).await
    }
}
