use std::sync::Arc;
use std::time::Instant;

use super::exactly_once::{self, Timelines};
use super::offsets::Offsets;
use super::preflight::{APPLICATION, Capture, Preflight, application, left_out};
use super::snapshot::Snapshot;
use super::supervisor::RelayParts;
use super::{Error, Guarantee};
use crate::error::chain;
use crate::postgres::{
    self, Connection, Publication, ReplicationStream, Slot, SlotFacts, SlotHolder, SnapshotMode,
    SnapshotSlot, Sql, TlsSetup,
};
use crate::replication::StartReplication;
use crate::source_offset::{SnapshotProgress, SourceOffset};
use crate::telemetry::{Component, Metrics, Status};
use crate::wal::{Lsn, SystemId, TimelineId};

/// Where a page of WAL begins, the last record's end may be told before or behind the page's header.
const WAL_PAGE_BYTES: u64 = 8192;

/// A started stream, and what it stands on.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) stream: ReplicationStream,
    pub(super) sql: Arc<Sql>,
    pub(super) confirmed: Lsn,
    pub(super) origin: Origin,
    /// The offset that was stored when this process began.
    pub(super) stored: Option<SourceOffset>,
    pub(super) capture: Capture,
    /// Where the WAL ended when the stream had started, when somebody wants to know.
    pub(super) wal_end: Option<Lsn>,
    /// `wal_sender_timeout` in milliseconds; 0 is never.
    pub(super) wal_sender_timeout_ms: i64,
    /// How far the server's WAL was flushed before the stream began.
    pub(super) wal_flushed: Lsn,
    /// With exactly-once, the timelines that the server comes from.
    pub(super) timelines: Timelines,
}

/// Which history the LSNs belong to. Positions of different origins must not be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) system_id: SystemId,
    pub(super) timeline: TimelineId,
}

/// What this attempt has made and would have to undo.
#[derive(Debug, Default, Clone, Copy)]
struct Made {
    publication: bool,
    slot: bool,
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
    /// What an earlier session of this process has left; the start is over.
    pub(super) known: Option<&'o Known>,
}

/// What an earlier session of this process has left.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) origin: Origin,
    /// Everything before is acknowledged, and nothing beyond was ever confirmed by us.
    pub(super) to: Lsn,
    /// Another outboxd has had the slot since.
    pub(super) shared: bool,
}

/// What an opening has come to.
pub(super) enum Opened {
    /// The stream has started.
    Link(Box<Link>),
    /// `snapshot.mode=initial_only`: the snapshot is sent and nothing is to follow.
    SnapshotOnly,
}

impl Opening<'_> {
    /// Connects, checks, makes or adopts publication and slot, sends the snapshot if there is to be one, and starts
    /// the stream. If it fails, what it made is undone: a failed start leaves nothing behind.
    pub(super) async fn open(self) -> Result<Opened, Error> {
        let preflight = Preflight::reach(&self.parts.postgres, self.tls).await?;
        self.status.up(Component::Postgres, Instant::now());
        if let Some(known) = self.known {
            known.check(&preflight)?;
        }
        let capture = preflight.capture(self.parts).await?;
        let mut made = Made::default();
        let sql = Arc::clone(&preflight.sql);
        match self.prepare(preflight, capture, &mut made).await {
            Ok(opened) => Ok(opened),
            Err(error) => {
                undo(self.parts, &sql, made).await;
                Err(error)
            }
        }
    }

    async fn prepare(
        self,
        mut preflight: Preflight,
        capture: Capture,
        made: &mut Made,
    ) -> Result<Opened, Error> {
        let options = &self.parts.postgres;
        if options.snapshot.mode == SnapshotMode::InitialOnly {
            self.snapshot(&preflight, &capture, None).await?;
            return Ok(Opened::SnapshotOnly);
        }
        let tables: Vec<_> = capture.tables.iter().collect();
        let publication = options.publication.ensure(&preflight.sql, &tables).await?;
        made.publication = publication == Publication::Created;
        let (slot, stored) = self.ensure_slot(&mut preflight, &capture, made).await?;
        tell(options, publication, slot);
        let timelines = exactly_once::history(self.parts, &mut preflight).await?;
        let stream =
            start(options, self.parts.messages.is_some(), preflight.connection, &preflight.sql).await?;
        let wal_end = self.wal_end(&preflight.sql).await?;
        Ok(Opened::Link(Box::new(Link {
            stream,
            sql: preflight.sql,
            confirmed: slot.confirmed_flush_lsn,
            origin: Origin { system_id: preflight.system_id, timeline: preflight.timeline },
            stored,
            capture,
            wal_end,
            wal_sender_timeout_ms: preflight.server.wal_sender_timeout_ms,
            wal_flushed: preflight.wal_end,
            timelines,
        })))
    }

    /// Where the WAL ends. Asked for once nobody else has the slot: nothing behind it can have been sent before.
    async fn wal_end(self, sql: &Sql) -> Result<Option<Lsn>, Error> {
        if self.parts.relay.guarantee != Guarantee::TailDedupe {
            return Ok(None);
        }
        let slot = sql.slot(&self.parts.postgres.slot.name).await?;
        Ok(slot.map(|slot| slot.server_lsn))
    }

    /// Adopts the slot, with the offset that is stored for it, or makes one; a new one begins with the snapshot, if there
    /// is to be one.
    async fn ensure_slot(
        self,
        preflight: &mut Preflight,
        capture: &Capture,
        made: &mut Made,
    ) -> Result<(Slot, Option<SourceOffset>), Error> {
        let options = &self.parts.postgres;
        let mode = options.snapshot.mode;
        let facts = preflight.sql.slot(&options.slot.name).await?;
        let recovering = match self.judge(facts.as_ref(), preflight).await {
            Ok(Some((slot, stored))) => {
                if self.known.is_none() && mode.takes_again(stored.as_ref()) {
                    self.snapshot(preflight, capture, None).await?;
                }
                return Ok((slot, stored));
            }
            Ok(None) => false,
            Err(error) if error.is_lost_slot() && options.recovers() => {
                self.give_up(facts.as_ref(), &error, preflight).await?;
                true
            }
            Err(error) => return Err(error),
        };
        let version_num = preflight.server.version_num;
        if mode == SnapshotMode::NoData && !recovering {
            let slot = options.slot.create(&mut preflight.connection, &preflight.sql, version_num).await?;
            made.slot = true;
            return Ok((slot, None));
        }
        let temporary =
            options.slot.create_with_snapshot(&mut preflight.connection, &preflight.sql, version_num).await?;
        self.snapshot(preflight, capture, Some(&temporary)).await?;
        let slot = options.slot.keep(&temporary, &mut preflight.connection, &preflight.sql).await?;
        made.slot = true;
        if recovering {
            self.metrics.slot_recovered();
            tracing::warn!(slot = %options.slot.name, lsn = %slot.confirmed_flush_lsn, "the slot is made anew, and every row that is in the table is sent");
        }
        Ok((slot, None))
    }

    /// Whether the slot that is there can be gone on from; `None` when there is none and need not be.
    async fn judge(
        self,
        facts: Option<&SlotFacts>,
        preflight: &Preflight,
    ) -> Result<Option<(Slot, Option<SourceOffset>)>, Error> {
        let options = &self.parts.postgres;
        let Some(facts) = facts else {
            if let Some(taker) = self.snapshot_taker(preflight).await? {
                return Err(postgres::Error::SlotActive(taker).into());
            }
            if self.known.is_some() {
                return Err(options.slot.vanished().into());
            }
            return self.refuse_gap(options.snapshot.mode).await.map(|()| None);
        };
        let slot = options.slot.adopt(facts, &options.server.database)?;
        if let Some(known) =
            self.known.filter(|known| known.is_passed_by(slot.confirmed_flush_lsn, preflight))
        {
            return Err(options.slot.moved_ahead(slot.confirmed_flush_lsn, known.to).into());
        }
        Ok(Some((slot, self.stored_offset(facts).await?)))
    }

    /// The slot is not there yet because another instance of ours sends the snapshot that comes before it.
    async fn snapshot_taker(self, preflight: &Preflight) -> Result<Option<SlotHolder>, Error> {
        let application = application(&self.parts.postgres);
        let pid = preflight.sql.snapshot_taker(&application).await?;
        let slot = self.parts.postgres.slot.name.to_string();
        Ok(pid.map(|pid| SlotHolder { slot, pid, application, client: String::new() }))
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
            "the slot is lost: all rows that are in the table are sent, again as well. Missing are those that committed after \
             sent_up_to and were deleted before now"
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
                    "the slot stands beyond the stored offset. After a crash that is to be expected; if there was none, somebody \
                     has moved the slot, and what was written in between is not sent"
                );
                Ok(stored)
            }
            Some(offset) if offset > slot.server_lsn => {
                Err(Error::OffsetAhead { store: offsets.store(), offset, wal_end: slot.server_lsn })
            }
            _ => Ok(stored),
        }
    }

    /// A slot that is made now begins behind what an offset was stored for. Only a snapshot sends what lies between.
    async fn refuse_gap(self, mode: SnapshotMode) -> Result<(), Error> {
        let slot = &self.parts.postgres.slot;
        let closes = matches!(mode, SnapshotMode::Always | SnapshotMode::WhenNeeded);
        let Some(offsets) = self.offsets.filter(|_| !closes && !slot.drop_on_stop) else { return Ok(()) };
        match offsets.read().await? {
            Some(stored) if stored.snapshot != SnapshotProgress::Unfinished => {
                Err(Error::OffsetWithoutSlot { store: offsets.store(), slot: slot.name.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Sends what is in the captured tables: as the slot's own snapshot shows it, or as it is now.
    async fn snapshot(
        self,
        preflight: &Preflight,
        capture: &Capture,
        slot: Option<&SnapshotSlot>,
    ) -> Result<(), Error> {
        let application = application(&self.parts.postgres);
        let at = slot.map_or(Lsn::ZERO, |slot| slot.consistent_point);
        let exported = slot.map(|slot| slot.snapshot.as_str());
        let batch = exactly_once::begin(self.parts, &preflight.system_id).await?;
        tracing::info!(lsn = %at, "snapshot begins");
        let snapshot = Snapshot::new(self.parts, self.status, self.metrics, at, batch);
        let rows = snapshot.send(&capture.tables, &preflight.sql, self.tls, &application, exported).await?;
        tracing::info!(rows, lsn = %at, "snapshot sent and acknowledged");
        Ok(())
    }
}

impl Known {
    /// Refuses a server whose WAL is not the one that was read: neither the same nor its continuation.
    fn check(&self, found: &Preflight) -> Result<(), Error> {
        let Origin { system_id, timeline } = &self.origin;
        let differ = |difference: String| Err(Error::OtherHistory { difference });
        if *system_id != found.system_id {
            return differ(format!("its system identifier is {}, and was {system_id}", found.system_id));
        }
        if found.timeline < *timeline {
            return differ(format!("it is on timeline {}, and was on {timeline}", found.timeline));
        }
        if found.timeline == *timeline && found.wal_end.get().saturating_add(WAL_PAGE_BYTES) < self.to.get() {
            return differ(format!(
                "its WAL ends at {}, and was read up to {} before",
                found.wal_end, self.to
            ));
        }
        Ok(())
    }

    /// Whether the slot stands where this process has not been, though nobody else of ours has had it.
    fn is_passed_by(&self, confirmed: Lsn, found: &Preflight) -> bool {
        let Origin { system_id, timeline } = &self.origin;
        !self.shared && *system_id == found.system_id && *timeline == found.timeline && confirmed > self.to
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

/// Whether the slot's holder is another instance of ours: then we stand by, and the slot is the lease.
pub(crate) fn is_our_own(holder: &SlotHolder) -> bool {
    holder.application.starts_with(APPLICATION)
}

/// Starts the stream. A refusal is read again from the slot's own row, which tells more than the server's words.
async fn start(
    options: &postgres::Options,
    messages: bool,
    connection: Connection,
    sql: &Sql,
) -> Result<ReplicationStream, postgres::Error> {
    let command = StartReplication {
        slot: options.slot.name.as_str(),
        publication: &options.publication.name,
        messages,
        more: &options.slot.stream_params,
    };
    match ReplicationStream::start(connection, &command).await {
        Err(refused @ postgres::Error::Server { .. }) => {
            if let Some(facts) = sql.slot(&options.slot.name).await? {
                options.slot.adopt(&facts, &options.server.database)?;
            }
            Err(refused)
        }
        outcome => outcome,
    }
}

fn tell(options: &postgres::Options, publication: Publication, slot: Slot) {
    let (publication_name, slot_name) = (&options.publication.name, &options.slot.name);
    match publication {
        Publication::Adopted => {}
        Publication::Created => {
            tracing::info!(publication = publication_name, undo = "DROP PUBLICATION", "publication created");
        }
        Publication::Altered => {
            tracing::info!(publication = publication_name, "tables added to the publication");
        }
    }
    if publication != Publication::Adopted && !slot.created {
        tracing::warn!(
            slot = %slot_name, publication = publication_name,
            "the slot is older: rows that were written to these tables before are not in the stream; start once with -X \
             snapshot.mode=always to send all that are there"
        );
    }
    if slot.created {
        tracing::info!(slot = %slot_name, lsn = %slot.confirmed_flush_lsn, "replication slot created");
    }
}

async fn undo(parts: &RelayParts, sql: &Sql, made: Made) {
    let options = &parts.postgres;
    if made.slot
        && let Err(error) = options.slot.drop_slot(sql).await
    {
        tracing::error!(slot = %options.slot.name, %error, "the slot that was just made is left behind");
    }
    if made.publication
        && let Err(error) = options.publication.undo(sql).await
    {
        tracing::error!(publication = options.publication.name, %error, "the publication that was just made is left behind");
    }
}

/// Whether a relation that the stream describes is captured, and as what.
pub(super) async fn resolve(
    parts: &RelayParts,
    sql: &Sql,
    relation: &crate::pgoutput::Relation,
) -> Result<super::feed::Table, Error> {
    use super::feed::Table;
    let names: Vec<_> = relation.columns.iter().map(|column| column.name.clone()).collect();
    if !is_captured(parts, &relation.schema, &relation.table, &names)? {
        match sql.partition_root(relation.oid).await? {
            Some((schema, table)) if is_captured(parts, &schema, &table, &names)? => {}
            _ => return Ok(Table::Other),
        }
    }
    let columns = sql.describe(relation.oid).await?;
    Ok(Table::Outbox(Box::new(parts.router.bind(relation, &columns)?)))
}

fn is_captured(parts: &RelayParts, schema: &str, table: &str, columns: &[String]) -> Result<bool, Error> {
    let (named, acted_on) = (parts.tables.matches(schema, table), parts.router.acts_on(schema, table));
    match (named, parts.tables.names_tables()) {
        (false, _) => Ok(false),
        (true, false) => Ok(acted_on && parts.router.fits(columns)),
        (true, true) if acted_on => Ok(true),
        (true, true) => Err(left_out(schema, table).into()),
    }
}
