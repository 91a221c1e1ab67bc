use std::collections::HashSet;
use std::sync::Arc;

use postgres_protocol::escape::escape_identifier;

use super::args::TargetArgs;
use super::compare::{Comparison, compare};
use super::error::MoveError;
use crate::cli::assemble::{assemble, assemble_sources};
use crate::cli::check::tables::{self, Outbox};
use crate::cli::progress::Progress;
use crate::cli::sql::open;
use crate::config::Sources;
use crate::postgres::{Error, SlotFacts, Sql};
use crate::relay::{Capture, RelayParts};

/// How our sessions are named in `pg_stat_activity`.
pub(super) const APPLICATION: &str = "outboxd move";

/// The server that outboxd is to read from, and its outbox.
pub(super) struct Site {
    pub(super) parts: Arc<RelayParts>,
    pub(super) sql: Sql,
    pub(super) outbox: Outbox,
    pub(super) slot: Option<SlotFacts>,
}

impl Site {
    pub(super) async fn look(args: &TargetArgs, progress: &Progress) -> Result<Self, MoveError> {
        progress.waiting("asking for the table");
        Self::of(Arc::new(assemble(&args.config)?.parts)).await
    }

    async fn of(parts: Arc<RelayParts>) -> Result<Self, MoveError> {
        let (sql, outbox) = find(&parts).await?;
        let slot = sql.slot(&parts.postgres.slot.name).await?;
        Ok(Self { parts, sql, outbox, slot })
    }

    pub(super) async fn capture(&self) -> Result<Capture, MoveError> {
        Ok(Capture::find(&self.sql, &self.parts).await?)
    }

    pub(super) fn name(&self) -> String {
        tables::name(&self.outbox.table)
    }

    pub(super) fn slot_name(&self) -> &str {
        self.parts.postgres.slot.name.as_str()
    }

    /// What keeps the first start from beginning with a snapshot.
    pub(super) fn obstacle(&self) -> Option<MoveError> {
        let (facts, slot) = (self.slot.as_ref()?, self.slot_name().to_owned());
        Some(match facts.active_pid {
            Some(pid) => MoveError::StillRead { slot, pid },
            None => MoveError::SlotThere { slot, is_lost: facts.invalidation().is_some() },
        })
    }

    /// The column that holds the event's id.
    pub(super) fn id_column(&self) -> Result<String, MoveError> {
        let column = self.outbox.id_column().ok_or_else(|| MoveError::NoId(self.name()))?;
        Ok(escape_identifier(column))
    }

    /// The ids of the rows of which a condition is true.
    pub(super) async fn ids(&self, condition: &str) -> Result<Vec<String>, MoveError> {
        ids(&self.sql, &self.outbox, &self.id_column()?, condition).await
    }

    /// Whether the server that is left has been left: nobody reads its slot, and each of its rows is here or in Kafka.
    pub(super) async fn check_arrived(
        &self,
        args: &TargetArgs,
        found: &Comparison,
        progress: &Progress,
    ) -> Result<(), MoveError> {
        let Some(file) = &args.from else { return Ok(()) };
        let sources = Sources { files: vec![file.clone()], ..args.config.sources() };
        let parts = assemble_sources(&Sources { overrides: Vec::new(), ..sources })?.parts;
        let left = Self::of(Arc::new(parts)).await?;
        if let Some(pid) = left.slot.as_ref().and_then(|slot| slot.active_pid) {
            return Err(MoveError::StillRead { slot: left.slot_name().to_owned(), pid });
        }
        let here: HashSet<_> = found.sent.iter().chain(&found.unsent).collect();
        let there = compare(&left, args, progress).await?;
        match there.unsent.iter().filter(|id| !here.contains(id)).count() {
            0 => Ok(()),
            rows => Err(MoveError::NotArrived { table: self.name(), rows }),
        }
    }
}

/// The only captured table, with its columns.
async fn find(parts: &RelayParts) -> Result<(Sql, Outbox), MoveError> {
    let router = parts.route.outbox().ok_or(MoveError::NoOutbox)?;
    let sql = open(&parts.postgres.server, APPLICATION).await?;
    let capture = Capture::find(&sql, parts).await?;
    let [table] = capture.tables.as_slice() else {
        return Err(MoveError::NotOneTable(capture.tables.iter().map(tables::name).collect()));
    };
    let (outbox, _) = tables::bind(router, table, sql.describe(table.oid).await?);
    let outbox = outbox.ok_or_else(|| MoveError::NoId(tables::name(table)))?;
    Ok((sql, outbox))
}

async fn ids(sql: &Sql, outbox: &Outbox, id: &str, condition: &str) -> Result<Vec<String>, MoveError> {
    const DOING: &str = "reading the ids of the rows that --sent names";
    let table = outbox.table.quoted();
    let text = format!("select {id}::pg_catalog.text from {table} where ({condition}) is true");
    // The condition is the user's.
    sql.use_role_names().await?;
    let rows = sql.query(DOING, &text, &[]).await?;
    sql.use_catalog_names().await?;
    let ids = rows.iter().map(|row| row.try_get::<_, Option<String>>(0));
    let ids: Result<Vec<_>, _> = ids.collect();
    Ok(ids.map_err(|error| Error::sql(DOING, error))?.into_iter().flatten().collect())
}
