//! One start, up to the first byte of the stream: connections, checks, publication, slot, snapshot. A failed start undoes what it
//! created.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use postgres_protocol::escape::escape_identifier;
use tokio::time::sleep;

use super::link::Link;
use super::order::{Begun, CatchUp, CaughtUp, DueSnapshot, NeedsTables, Started, Tables, is_our_own};
use super::slot_start::{Made, Opening};
use super::takeover::{self, keeping_alive};
use crate::error::{Diagnose as _, chain};
use crate::postgres::{
    self, Connection, Publication, ReplicationStream, Slot, SnapshotSlot, Sql, TableFacts,
};
use crate::relay::capture::preflight::{Capture, Preflight, application};
use crate::relay::capture::resolver::Resolver;
use crate::relay::capture::standby;
use crate::relay::error::Error;
use crate::relay::parts::RelayParts;
use crate::relay::progress::comparison::FoundSlot;
use crate::relay::progress::position::Position;
use crate::relay::progress::position_store::{PositionWriter, Positions};
use crate::relay::snapshot;
use crate::relay::snapshot::{Snapshot, SnapshotProgressStore};
use crate::relay::time::delay;
use crate::replication::StartReplication;
use crate::telemetry::{Component, Status};
use crate::wal::{Lsn, Oid, SystemId};

/// Pause before a position that could not be read is read again.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// Result of an opening.
pub(in crate::relay) enum Opened {
    /// The stream has started.
    Link(Box<Link>),
    /// `snapshot.mode=initial_only`: the snapshot is sent and nothing is to follow.
    SnapshotOnly,
}

impl Opening<'_> {
    /// Connects, checks, makes or adopts publication and slot, sends the snapshot if one is needed, and starts
    /// the stream. If it fails, what it made is undone: a failed start leaves nothing behind.
    pub(in crate::relay) async fn open(self) -> Result<Opened, Error> {
        let mut preflight = Preflight::reach(&self.parts.postgres, self.tls).await?;
        self.status.up(Component::Postgres, Instant::now());
        if preflight.server.in_recovery {
            self.check_standby(&mut preflight).await?;
        }
        let needs = NeedsTables::at_server(self.known, &preflight.origin(), preflight.wal_end)?;
        let capture = preflight.capture(self.parts, self.captured).await?;
        let mut made = Made::default();
        let (sql, tables) = (Arc::clone(&preflight.sql), capture.tables.clone());
        match self.prepare(needs, preflight, capture, &mut made).await {
            Ok(opened) => Ok(opened),
            Err(error) => {
                undo(self.parts, &sql, made).await;
                if let Error::Postgres(postgres::Error::SlotActive(holder)) = &error
                    && is_our_own(holder)
                {
                    self.compare_tables(&tables).await;
                }
                Err(error)
            }
        }
    }

    /// Reports the tables that the slot's holder does not capture. A standby for a relay of other tables
    /// sends nothing, and that one skips the rows of these.
    async fn compare_tables(self, tables: &[TableFacts]) {
        let Some(positions) = self.positions else { return };
        let Some(theirs) = positions.tables_of_holder().await else { return };
        let lacking = tables.iter().filter(|table| theirs.iter().all(|their| their.oid() != table.oid));
        self.status.holder_lacks(lacking.map(|table| format!("{}.{}", table.schema, table.name)).collect());
    }

    /// Checks that this configuration can be served by a standby, and that this one has the WAL that was read
    /// before. A standby accepts connections before it has replayed that WAL after a start, because its
    /// replay position is not stored with each record.
    async fn check_standby(self, preflight: &mut Preflight) -> Result<(), Error> {
        standby::check_options(self.parts)?;
        let slot = preflight.sql.slot(&self.parts.postgres.slot.name).await?;
        let replayed = slot.as_ref().map_or(preflight.wal_end, |slot| slot.server_lsn);
        // It was queried earlier, and replay continues.
        preflight.wal_end = preflight.wal_end.max(replayed);
        let origin = preflight.origin();
        if let Some(confirmed) = slot.and_then(|slot| slot.confirmed_flush_lsn) {
            standby::check_replay(replayed, &origin, confirmed, &origin)?;
        }
        if let Some(known) = self.known {
            standby::check_replay(replayed, &known.origin, known.to, &origin)?;
        }
        Ok(())
    }

    async fn prepare(
        self,
        needs: NeedsTables,
        mut preflight: Preflight,
        capture: Capture,
        made: &mut Made,
    ) -> Result<Opened, Error> {
        let options = &self.parts.postgres;
        let needs = match needs.found(options.snapshot.mode) {
            Tables::SnapshotOnly => {
                self.snapshot(&preflight.sql, &preflight.system_id, &capture, None, None).await?;
                return Ok(Opened::SnapshotOnly);
            }
            Tables::Publish(needs) => needs,
        };
        let tables: Vec<_> = capture.tables.iter().collect();
        let identities = options.tables.identities.set(&preflight.sql, &capture.tables).await?;
        for table in identities.changed {
            tracing::info!(table, "replica identity set for replica.identity.autoset.values");
        }
        for error in identities.refused {
            tracing::error!(
                error = chain(&error),
                fix = error.fix(),
                "replica.identity.autoset.values: a table keeps its replica identity, and is streamed with it"
            );
        }
        let publication = options.publication.ensure(&preflight.sql, &tables).await?;
        made.publication = publication == Publication::Created;
        let needs = self.ensure_slot(needs, &mut preflight, &capture, made).await?;
        let slot = needs.found().slot;
        report(options, publication, slot, needs.found().is_unused && made.snapshot);
        let mut position = self.position(&preflight, slot.confirmed_flush_lsn);
        let site = preflight.site();
        let timelines = takeover::history(self.parts, &mut preflight).await?;
        let stream = start(options, reads_messages(self.parts), preflight.connection, &preflight.sql).await?;
        let now = preflight.sql.moment(&options.slot.name).await?;
        let judge = self.judge(&preflight.sql);
        let started = match needs.started(now.confirmed, judge.grounds(&site)) {
            Begun::Moved(judging) => {
                Started::judged(judge.answer(judging, None, &site).await?, &judge.comparison)?
            }
            Begun::Settled(started) => started,
        };
        let Started { mut found, catch_up } = started;
        let snapshots = self.snapshots_left(&mut found, &site.origin);
        // On another timeline the WAL may end before what was remembered.
        let snapshot_after = (found.snapshot == DueSnapshot::Next)
            .then(|| self.snapshot_after.map_or(now.wal_end, |lsn| lsn.min(now.wal_end)));
        // A stop of an earlier process holds until the rows are sent from the tables.
        position.stopped = found
            .position
            .as_ref()
            .filter(|_| snapshot_after.is_some())
            .and_then(|read| read.stopped.clone());
        let mut link = Link {
            stream,
            sql: preflight.sql,
            confirmed: now.confirmed,
            sent_snapshot: made.snapshot,
            snapshot_after,
            origin: site.origin,
            stored: found.stored,
            snapshots,
            goes_on: !(slot.created || found.is_unused && made.snapshot),
            is_where_left: found.is_where_left,
            database: site.database,
            position: PositionWriter::new(self.positions.cloned(), position, self.captured.clone()),
            capture,
            wal_end: now.wal_end,
            clock: now.clock,
            wal_sender_timeout_ms: preflight.server.wal_sender_timeout_ms,
            is_standby: site.in_recovery,
            handed: None,
            timelines,
        };
        if let Some(catch_up) = catch_up {
            self.catch_up(catch_up, &mut link, site.database).await?;
        }
        if found.snapshot == DueSnapshot::First {
            self.snapshot_first(&mut link, found.position).await?;
        }
        Ok(Opened::Link(Box::new(link)))
    }

    /// Takes over the stored position, because another outboxd may have had the slot unnoticed: the next
    /// epoch must be greater than its last, and what it has captured stays captured. The slot is held
    /// already, whether Kafka responds or not.
    async fn catch_up(self, catch_up: CatchUp, link: &mut Link, database: Oid) -> Result<(), Error> {
        let Some(positions) = self.positions else { return Ok(()) };
        let reading = pin!(read_patiently(catch_up, positions, self.status));
        if let Some(position) = keeping_alive(self.parts, link, reading).await?? {
            let at = Some((link.confirmed, link.wal_end));
            let found = FoundSlot { origin: &link.origin, database, at, stored: None };
            let snapshots = catch_up.learn(&position, found, &self.comparison())?;
            link.snapshots = snapshots;
        }
        Ok(())
    }

    /// Sends the rows of the tables while the stream waits, and stores that none is missing any more: not in a suspicion, and not because
    /// of the stop of an earlier process, which is in the position that was read.
    async fn snapshot_first(self, link: &mut Link, read: Option<Box<Position>>) -> Result<(), Error> {
        let (sql, capture, origin) = (Arc::clone(&link.sql), link.capture.clone(), link.origin.clone());
        let sending = pin!(self.snapshot(&sql, &origin.system_id, &capture, None, None));
        keeping_alive(self.parts, link, sending).await??;
        link.sent_snapshot = true;
        self.settle(&capture, read.as_ref().is_some_and(|read| read.stopped.is_some()));
        let (Some(positions), Some(read)) = (self.positions, read) else { return Ok(()) };
        let mut position = read.settled(self.captured.list_kept());
        positions.begin(&mut position);
        positions.write(&position).await
    }

    /// Sends what is in the captured tables: as the slot's own snapshot shows it, or as it is now.
    pub(in crate::relay) async fn snapshot(
        self,
        sql: &Arc<Sql>,
        system_id: &SystemId,
        capture: &Capture,
        slot: Option<&SnapshotSlot>,
        keeper: Option<&mut SnapshotProgressStore<'_>>,
    ) -> Result<(), Error> {
        delay::wait(self.parts.postgres.snapshot.delay, "snapshot.delay.ms", self.status).await;
        let application = application(&self.parts.postgres);
        let at = slot.map_or(Lsn::ZERO, |slot| slot.consistent_point);
        let exported = slot.and_then(|slot| slot.snapshot.as_deref());
        let batch = takeover::begin(self.parts, system_id).await?;
        tracing::info!(lsn = %at, "snapshot begins");
        let resolver = Resolver::new(self.parts, sql, capture, self.status, self.metrics);
        let snapshot = Snapshot::new(resolver, at, batch);
        let site = snapshot::Site { tls: self.tls, application: &application, exported };
        let rows = snapshot.send(&capture.in_snapshot, &site, keeper).await?;
        tracing::info!(rows, lsn = %at, "snapshot sent and acknowledged");
        Ok(())
    }
}

/// Reads the position, however long Kafka is away. Without the permission the session continues with what it
/// knows.
async fn read_patiently(
    catch_up: CatchUp,
    positions: &Positions,
    status: &Status,
) -> Result<Option<Position>, Error> {
    loop {
        let error = match catch_up.read(positions.read().await)? {
            CaughtUp::Read(position) => return Ok(position.map(|position| *position)),
            CaughtUp::Without(error) => {
                tracing::warn!(error = chain(&error), fix = error.fix(), "cannot read the position");
                return Ok(None);
            }
            CaughtUp::Again(error) => error,
        };
        status.down_by(Component::Kafka, &error, Instant::now());
        status.tick_idle(Instant::now());
        sleep(READ_INTERVAL).await;
    }
}

/// Returns whether the stream has logical messages: as events, or as signals and watermarks.
fn reads_messages(parts: &RelayParts) -> bool {
    parts.messages.is_some() || parts.route.changes().is_some() || parts.relay.signals.reads_messages()
}

/// Starts the stream. After a refusal the slot's own row is read, which has more details than the server's
/// message.
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

fn report(options: &postgres::Options, publication: Publication, slot: Slot, sent_rows: bool) {
    let (publication_name, slot_name) = (&options.publication.name, &options.slot.name);
    match publication {
        Publication::Adopted => {}
        Publication::Created => {
            let undo = format!("DROP PUBLICATION {}", escape_identifier(publication_name));
            tracing::info!(publication = publication_name, undo, "publication created");
        }
        Publication::Altered => {
            tracing::info!(publication = publication_name, "tables added to the publication");
        }
    }
    if publication != Publication::Adopted && !slot.created && !sent_rows {
        tracing::warn!(
            slot = %slot_name, publication = publication_name,
            "the slot is older: rows that were written to these tables before now are not in the stream; \
             start once with -X snapshot.mode=always to send all rows of the tables"
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
        tracing::error!(slot = %options.slot.name, %error, "cannot drop the slot that was just created");
    }
    if made.publication
        && let Err(error) = options.publication.undo(sql).await
    {
        tracing::error!(
            publication = options.publication.name, %error,
            "cannot drop the publication that was just created"
        );
    }
}
