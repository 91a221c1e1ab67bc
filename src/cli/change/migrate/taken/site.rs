//! Slots of a migration from another slot.

use std::sync::Arc;

use postgres_protocol::escape::escape_literal;
use serde::Serialize;

use crate::cli::change::migrate::args::TargetArgs;
use crate::cli::change::migrate::error::MigrateError;
use crate::cli::prove::check::tables;
use crate::cli::run::assemble::assemble;
use crate::cli::shell::sql::open;
use crate::cli::shell::steps::{Database, Step};
use crate::postgres::{Options, PublicationFacts, SlotFacts, Sql, TableFacts};
use crate::relay::{Capture, RelayParts};

/// `application_name` of the command's sessions in `pg_stat_activity`.
const APPLICATION: &str = "outboxd migrate";

/// Query for the publications that publish the inserts of a table.
const PUBLICATIONS: &str = "
select distinct p.pubname::text from pg_publication p join pg_publication_tables t on t.pubname = p.pubname
where p.pubinsert and t.schemaname = $1 and t.tablename = $2 order by 1";

/// Slots of both programs, and the publication.
pub(super) struct Site {
    pub(super) parts: Arc<RelayParts>,
    pub(super) options: Options,
    pub(super) sql: Sql,
    pub(super) tables: Vec<TableFacts>,
    pub(super) publication: Option<PublicationFacts>,
    /// Name of the other program's slot.
    pub(super) from: String,
    pub(super) theirs: Option<SlotFacts>,
    pub(super) ours: Option<SlotFacts>,
}

/// Progress, read from the slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    NotBegun,
    Copied,
    Finished,
}

impl Site {
    pub(super) async fn look(args: &TargetArgs, from: &str) -> Result<Self, MigrateError> {
        let parts = Arc::new(assemble(&args.config)?.parts);
        let options = parts.postgres.clone();
        let sql = open(&options.server, APPLICATION).await?;
        let tables = Capture::find(&sql, &parts).await?.tables;
        let publication = sql.publication(&options.publication.name).await?;
        let (theirs, ours) = (sql.slot_named(from).await?, sql.slot(&options.slot.name).await?);
        if from == options.slot.name.as_str() {
            return Err(MigrateError::SameSlot(from.to_owned()));
        }
        Ok(Self { parts, options, sql, tables, publication, from: from.to_owned(), theirs, ours })
    }

    pub(super) const fn phase(&self) -> Phase {
        match (&self.theirs, &self.ours) {
            (_, None) => Phase::NotBegun,
            (Some(_), Some(_)) => Phase::Copied,
            (None, Some(_)) => Phase::Finished,
        }
    }

    pub(super) const fn database(&self) -> Database<'_> {
        Database { sql: &self.sql, server: &self.options.server }
    }

    /// Returns the statement that drops one of the two slots.
    pub(super) fn drop_slot(slot: &str) -> Step {
        let text = format!("SELECT pg_drop_replication_slot({})", escape_literal(slot));
        Step::for_good(format!("replication slot {slot:?} is dropped"), text)
    }

    pub(super) fn name(&self) -> &str {
        self.options.slot.name.as_str()
    }

    /// Checks whether outboxd can continue from the other program's slot.
    pub(super) async fn check_beginning(&self) -> Result<(), MigrateError> {
        let slot = self.from.clone();
        let Some(theirs) = &self.theirs else {
            return Err(MigrateError::no_such_slot(&self.sql, &slot).await);
        };
        if let Some(because) = theirs.invalidation() {
            return Err(MigrateError::SlotLost { slot, because: Some(because) });
        }
        match (theirs.plugin.as_deref(), theirs.database.as_deref()) {
            (Some("pgoutput"), Some(database)) if database == self.options.server.database => Ok(()),
            _ => Err(MigrateError::OtherSlot(slot)),
        }
    }

    /// Checks the publication. It must have existed when the pending WAL of the slot was written: it is the other
    /// program's, or an older one of outboxd's.
    pub(super) async fn check_publication(&self) -> Result<(), MigrateError> {
        const DOING: &str = "looking for publications of the table";
        let lacks = |table: &&TableFacts| {
            self.publication
                .as_ref()
                .is_none_or(|publication| !publication.inserts || !publication.publishes(table))
        };
        let Some(table) = self.tables.iter().find(lacks) else { return Ok(()) };
        let rows = self.sql.query(DOING, PUBLICATIONS, &[&table.schema, &table.name]).await?;
        let others = rows.iter().filter_map(|row| row.try_get(0).ok()).collect();
        let publication = self.options.publication.name.clone();
        Err(MigrateError::NotPublished { publication, table: tables::name(table), others })
    }

    /// Returns a warning if the other program reads its slot again, so that consumers receive every event twice, or if
    /// the slot of outboxd is lost.
    pub(super) fn attention(&self) -> Option<String> {
        let pid = |slot: &Option<SlotFacts>| slot.as_ref().and_then(|slot| slot.active_pid);
        if self.phase() == Phase::Copied
            && let Some(pid) = pid(&self.theirs)
        {
            return Some(format!(
                "slot {} is read again, by pid {pid}: the same rows are sent by both",
                self.from
            ));
        }
        let lost = self.ours.as_ref().and_then(SlotFacts::invalidation);
        lost.map(|because| format!("slot {} is lost: {because}", self.name()))
    }
}
