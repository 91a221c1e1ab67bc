use std::sync::Arc;
use std::time::Instant;

use super::Error;
use super::preflight::{APPLICATION, Capture, Preflight, application};
use super::snapshot::Snapshot;
use super::supervisor::RelayParts;
use crate::outbox::EventRouter;
use crate::postgres::{
    self, Connection, Publication, ReplicationStream, Slot, SlotHolder, SnapshotMode, SnapshotSlot, Sql,
    TlsSetup,
};
use crate::replication::StartReplication;
use crate::telemetry::{Component, Metrics, Status};
use crate::wal::{Lsn, SystemId, TimelineId};

/// A started stream, and what it stands on.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) stream: ReplicationStream,
    pub(super) sql: Arc<Sql>,
    pub(super) confirmed: Lsn,
    pub(super) origin: Origin,
    pub(super) capture: Capture,
    /// `wal_sender_timeout` in milliseconds; 0 is never.
    pub(super) wal_sender_timeout_ms: i64,
}

/// Which history the LSNs belong to. Positions of different origins must not be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    system_id: SystemId,
    timeline: TimelineId,
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
    pub(super) parts: &'o RelayParts,
    pub(super) tls: &'o TlsSetup,
    pub(super) status: &'o Status,
    pub(super) metrics: &'o Metrics,
    /// The slot was there earlier in this process; the start is over.
    pub(super) again: bool,
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
        let capture = preflight.capture(&self.parts.tables, &self.parts.router).await?;
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
        let slot = self.ensure_slot(&mut preflight, &capture, made).await?;
        tell(options, publication, slot);
        let stream = start(options, preflight.connection, &preflight.sql).await?;
        Ok(Opened::Link(Box::new(Link {
            stream,
            sql: preflight.sql,
            confirmed: slot.confirmed_flush_lsn,
            origin: Origin { system_id: preflight.system_id, timeline: preflight.timeline },
            capture,
            wal_sender_timeout_ms: preflight.server.wal_sender_timeout_ms,
        })))
    }

    /// Adopts the slot or makes it; a new one begins with the snapshot, if there is to be one.
    async fn ensure_slot(
        self,
        preflight: &mut Preflight,
        capture: &Capture,
        made: &mut Made,
    ) -> Result<Slot, Error> {
        let options = &self.parts.postgres;
        let mode = options.snapshot.mode;
        if let Some(facts) = preflight.sql.slot(&options.slot.name).await? {
            match options.slot.adopt(&facts, &options.server.database) {
                Err(postgres::Error::SlotLost { reason, .. }) if mode == SnapshotMode::WhenNeeded => {
                    tracing::warn!(slot = %options.slot.name, reason, "the slot is lost: beginning anew with a snapshot");
                    options.slot.drop_slot(&preflight.sql).await?;
                }
                adopted => {
                    let slot = adopted?;
                    if mode == SnapshotMode::Always && !self.again {
                        self.snapshot(preflight, capture, None).await?;
                    }
                    return Ok(slot);
                }
            }
        } else if self.again {
            return Err(options.slot.vanished().into());
        }
        let version_num = preflight.server.version_num;
        if mode == SnapshotMode::NoData {
            let slot = options.slot.create(&mut preflight.connection, &preflight.sql, version_num).await?;
            made.slot = true;
            return Ok(slot);
        }
        let temporary =
            options.slot.create_with_snapshot(&mut preflight.connection, &preflight.sql, version_num).await?;
        self.snapshot(preflight, capture, Some(&temporary)).await?;
        let slot = options.slot.keep(&temporary, &mut preflight.connection, &preflight.sql).await?;
        made.slot = true;
        Ok(slot)
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
        tracing::info!(lsn = %at, "snapshot begins");
        let snapshot = Snapshot::new(self.parts, self.status, self.metrics, at);
        let rows = snapshot.send(&capture.tables, &preflight.sql, self.tls, &application, exported).await?;
        tracing::info!(rows, lsn = %at, "snapshot sent and acknowledged");
        Ok(())
    }
}

/// Whether the slot's holder is another instance of ours: then we stand by, and the slot is the lease.
pub(crate) fn is_our_own(holder: &SlotHolder) -> bool {
    holder.application.starts_with(APPLICATION)
}

/// Starts the stream. A refusal is read again from the slot's own row, which tells more than the server's words.
async fn start(
    options: &postgres::Options,
    connection: Connection,
    sql: &Sql,
) -> Result<ReplicationStream, postgres::Error> {
    let command = StartReplication {
        slot: options.slot.name.as_str(),
        publication: &options.publication.name,
        messages: false,
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
    router: &EventRouter,
) -> Result<super::feed::Table, Error> {
    use super::feed::Table;
    let named = parts.tables.matches(&relation.schema, &relation.table);
    let fits = || {
        let names: Vec<_> = relation.columns.iter().map(|column| column.name.clone()).collect();
        router.fits(&names)
    };
    let captured = (named && (parts.tables.names_tables() || fits())) || {
        let root = sql.partition_root(relation.oid).await?;
        root.is_some_and(|(schema, table)| {
            parts.tables.matches(&schema, &table) && (parts.tables.names_tables() || fits())
        })
    };
    if !captured {
        return Ok(Table::Other);
    }
    let columns = sql.describe(relation.oid).await?;
    Ok(Table::Outbox(Box::new(router.bind(relation, &columns)?)))
}
