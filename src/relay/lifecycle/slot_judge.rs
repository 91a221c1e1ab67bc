//! Driver of the slot's judgement: answers its questions from PostgreSQL and Kafka. The start acts on the verdict, and the commands
//! that predict the start make the same one.

use std::sync::Arc;
use std::time::Duration;

use super::order::{Grounds, Judged, Judging};
use crate::postgres::{Slot, SlotFacts, SlotHolder, SlotOptions, Sql, application_base, shown_application};
use crate::relay::capture::preflight::Site;
use crate::relay::error::Error;
use crate::relay::parts::RelayParts;
use crate::relay::progress::comparison::Comparison;
use crate::relay::progress::last_state;
use crate::relay::progress::offsets::Offsets;
use crate::relay::progress::position::Position;
use crate::relay::progress::position_store::{Positions, peek_position};
use crate::relay::time::clock::Now;
use crate::source_offset::{SnapshotProgress, SourceOffset};

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

impl SlotJudge<'_> {
    /// Judges the slot with these facts, or its absence; `begin` begins with it.
    ///
    /// # Errors
    /// When a start must not continue, or a server does not answer.
    pub(in crate::relay) async fn judge(
        self,
        begin: impl FnOnce(Option<Slot>, Grounds<'_>) -> Judging,
        facts: Option<&SlotFacts>,
        site: &Site,
    ) -> Result<Judged, Error> {
        let options = &self.parts.postgres;
        let slot = facts.map(|facts| options.slot.adopt(facts, &options.server.database)).transpose()?;
        self.answer(begin(slot, self.grounds(site)), facts, site).await
    }

    /// Answers the questions of a judgement, until there is a verdict.
    pub(in crate::relay) async fn answer(
        self,
        mut judging: Judging,
        facts: Option<&SlotFacts>,
        site: &Site,
    ) -> Result<Judged, Error> {
        loop {
            judging = match judging {
                Judging::Taker(question) => {
                    let taker = self.snapshot_taker().await?;
                    question.answered(taker, self.grounds(site))?
                }
                Judging::Offset(question) => {
                    let stored = self.stored_offset(facts).await?;
                    question.answered(stored, self.grounds(site))
                }
                Judging::State(question) => {
                    let state = last_state::read(self.parts).await?;
                    question.answered(state.map(|state| state.place.furthest()), self.grounds(site))?
                }
                Judging::OffsetLeft(question) => {
                    let left = self.offset_left().await?;
                    question.answered(left, self.grounds(site))
                }
                Judging::Position(question) => {
                    let position = self.read_position().await?;
                    let wal_end = self.sql.slot(&self.parts.postgres.slot.name).await?;
                    let wal_end = wal_end.map(|facts| facts.server_lsn);
                    let compared = question.answered(position, wal_end, self.grounds(site), Now::read())?;
                    self.use_up();
                    compared.next(self.grounds(site))?
                }
                Judging::Handover(question) => question.answered(self.is_of_migration().await?)?,
                Judging::Judged(judged) => return Ok(judged),
            };
        }
    }

    /// Returns the facts that the slot is compared with.
    pub(in crate::relay) fn grounds<'g>(&'g self, site: &'g Site) -> Grounds<'g> {
        let stores_positions = match self.asker {
            Asker::Relay(positions) => positions.is_some_and(Positions::is_on),
            Asker::Command => self.parts.relay.position.topic.is_some(),
        };
        Grounds { comparison: self.comparison, site, stores_positions }
    }

    /// Marks the value of `outboxd.position.accept` as used: the position was compared.
    fn use_up(&self) {
        if let (Asker::Relay(Some(positions)), Some(accept)) = (self.asker, self.parts.relay.position.accept)
        {
            positions.use_up(accept);
        }
    }

    async fn read_position(self) -> Result<Option<Position>, Error> {
        match self.asker {
            Asker::Relay(Some(positions)) => positions.read().await,
            Asker::Relay(None) => Ok(None),
            Asker::Command => peek_position(self.parts, COMMAND_PATIENCE).await,
        }
    }

    /// Returns whether the publication belongs to a migration: then the existing rows belong to the program that it comes from.
    async fn is_of_migration(self) -> Result<bool, Error> {
        let publication = self.sql.publication(&self.parts.postgres.publication.name).await?;
        Ok(publication.is_some_and(|publication| publication.handover.is_some()))
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
    async fn stored_offset(self, facts: Option<&SlotFacts>) -> Result<Option<SourceOffset>, Error> {
        match (self.offsets, facts) {
            (Some(offsets), Some(facts)) => offsets.read_for(facts).await,
            _ => Ok(None),
        }
    }

    /// Reads the progress of the snapshot in the offset of a slot that is missing, with the name of the store.
    async fn offset_left(self) -> Result<Option<(SnapshotProgress, String)>, Error> {
        let Some(offsets) = self.offsets else { return Ok(None) };
        let stored = offsets.read().await?;
        Ok(stored.map(|stored| (stored.snapshot, offsets.store())))
    }
}
