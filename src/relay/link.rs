use std::sync::Arc;
use std::time::Instant;

use super::Error;
use super::preflight::{APPLICATION, Capture, Preflight};
use super::supervisor::RelayParts;
use crate::outbox::EventRouter;
use crate::postgres::{self, Connection, Publication, ReplicationStream, Slot, SlotHolder, Sql, TlsSetup};
use crate::replication::StartReplication;
use crate::telemetry::{Component, Status};
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

impl Link {
    /// Connects, checks, makes or adopts publication and slot, and starts the stream. If it fails, what it made is
    /// undone: a failed start leaves nothing behind.
    pub(super) async fn open(
        parts: &RelayParts,
        tls: &TlsSetup,
        status: &Status,
        slot_was_there: bool,
    ) -> Result<Self, Error> {
        let preflight = Preflight::reach(&parts.postgres, tls).await?;
        status.up(Component::Postgres, Instant::now());
        let capture = preflight.capture(&parts.tables, &parts.router).await?;
        let mut made = Made::default();
        let sql = Arc::clone(&preflight.sql);
        match Self::prepare(parts, preflight, capture, slot_was_there, &mut made).await {
            Ok(link) => Ok(link),
            Err(error) => {
                undo(parts, &sql, made).await;
                Err(error)
            }
        }
    }

    async fn prepare(
        parts: &RelayParts,
        mut preflight: Preflight,
        capture: Capture,
        slot_was_there: bool,
        made: &mut Made,
    ) -> Result<Self, Error> {
        let options = &parts.postgres;
        let tables: Vec<_> = capture.tables.iter().collect();
        let publication = options.publication.ensure(&preflight.sql, &tables).await?;
        made.publication = publication == Publication::Created;
        let slot = ensure_slot(options, &mut preflight, slot_was_there).await?;
        made.slot = slot.created;
        tell(options, publication, slot);
        let stream = start(options, preflight.connection, &preflight.sql).await?;
        Ok(Self {
            stream,
            sql: preflight.sql,
            confirmed: slot.confirmed_flush_lsn,
            origin: Origin { system_id: preflight.system_id, timeline: preflight.timeline },
            capture,
            wal_sender_timeout_ms: preflight.server.wal_sender_timeout_ms,
        })
    }
}

/// Whether the slot's holder is another instance of ours: then we stand by, and the slot is the lease.
pub(super) fn is_our_own(holder: &SlotHolder) -> bool {
    holder.application.starts_with(APPLICATION)
}

async fn ensure_slot(
    options: &postgres::Options,
    preflight: &mut Preflight,
    was_there: bool,
) -> Result<Slot, postgres::Error> {
    match preflight.sql.slot(&options.slot.name).await? {
        Some(facts) => options.slot.adopt(&facts, &options.server.database),
        None if was_there => Err(options.slot.vanished()),
        None => {
            options.slot.create(&mut preflight.connection, &preflight.sql, preflight.server.version_num).await
        }
    }
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
            tracing::info!(publication = publication_name, "tables added to the publication")
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
