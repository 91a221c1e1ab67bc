//! The server of a move, and its obstacles.

use std::collections::HashSet;
use std::sync::Arc;

use postgres_protocol::escape::escape_identifier;

use super::args::TargetArgs;
use super::compare::{Comparison, compare};
use super::error::MoveError;
use super::rights::missing_right;
use crate::cli::prove::check::tables;
use crate::cli::prove::check::tables::Outbox;
use crate::cli::run::assemble::{assemble, assemble_sources};
use crate::cli::shell::progress::Progress;
use crate::cli::shell::sql::open;
use crate::config::Sources;
use crate::postgres::{Error, SlotFacts, Sql};
use crate::relay::{Capture, RelayParts};

/// `application_name` of the command's sessions in `pg_stat_activity`.
pub(super) const APPLICATION: &str = "outboxd move";

/// The server that outboxd is to read from, and its outbox.
pub(super) struct Site {
    pub(super) parts: Arc<RelayParts>,
    pub(super) sql: Sql,
    pub(super) outbox: Outbox,
    pub(super) slot: Option<SlotFacts>,
    /// The right that is missing to store the ids. It is not read on the server that is left.
    missing_right: Option<MissingRight>,
}

/// A right that a cut-over needs.
#[derive(Debug, Clone)]
pub(super) struct MissingRight {
    pub(super) role: String,
    pub(super) table: String,
    pub(super) fix: String,
}

impl Site {
    pub(super) async fn look(args: &TargetArgs, progress: &Progress) -> Result<Self, MoveError> {
        progress.waiting("asking for the table");
        let mut site = Self::of(Arc::new(assemble(&args.config)?.parts)).await?;
        site.missing_right = missing_right(&site.sql, &site.outbox.table).await?;
        Ok(site)
    }

    async fn of(parts: Arc<RelayParts>) -> Result<Self, MoveError> {
        let (sql, outbox) = find(&parts).await?;
        let slot = sql.slot(&parts.postgres.slot.name).await?;
        Ok(Self { parts, sql, outbox, slot, missing_right: None })
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

    /// Returns all obstacles of the cut-over, first those that must be removed before a slot is dropped, which cannot be
    /// undone.
    pub(super) fn obstacles(&self) -> Vec<MoveError> {
        let right = self.missing_right.clone();
        let right =
            right.map(|MissingRight { role, table, fix }| MoveError::MayNotWrite { role, table, fix });
        let slot = self.slot.as_ref().map(|facts| {
            let slot = self.slot_name().to_owned();
            match facts.active_pid {
                Some(pid) => MoveError::StillRead { slot, pid },
                None => MoveError::SlotThere { slot, is_lost: facts.invalidation().is_some() },
            }
        });
        right.into_iter().chain(slot).collect()
    }

    /// Returns the column of the event's id.
    pub(super) fn id_column(&self) -> Result<String, MoveError> {
        let column = self.outbox.id_column().ok_or_else(|| MoveError::NoId(self.name()))?;
        Ok(escape_identifier(column))
    }

    /// Returns the ids of the rows of which a condition is true.
    pub(super) async fn ids(&self, condition: &str) -> Result<Vec<String>, MoveError> {
        ids(&self.sql, &self.outbox, &self.id_column()?, condition).await
    }

    /// Checks that the old server is out of use: its slot is not read, and each of its rows is here or in
    /// Kafka.
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
        if let rows @ 1.. = there.without_id.unsent {
            return Err(MoveError::NoIds { table: self.name(), rows });
        }
        match there.unsent.iter().filter(|id| !here.contains(id)).count() {
            0 => Ok(()),
            rows => Err(MoveError::NotArrived { table: self.name(), rows }),
        }
    }
}

/// Finds the only captured table, with its columns.
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
