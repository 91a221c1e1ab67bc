use std::sync::Arc;

use super::mark::Mark;
use super::phase::Phase;
use crate::cli::assemble::assemble;
use crate::cli::check::tables;
use crate::cli::migrate::args::TargetArgs;
use crate::cli::migrate::error::MigrateError;
use crate::cli::sql::open;
use crate::cli::steps::Database;
use crate::postgres::{
    Error, HandoverPhase, Options, PublicationFacts, ServerFacts, SlotFacts, Sql, TableFacts,
};
use crate::relay::{Capture, RelayParts};
use crate::wal::Oid;

/// How our sessions are named in `pg_stat_activity`.
pub(super) const APPLICATION: &str = "outboxd migrate";

/// The trigger. Those of one event fire in the order of their names, and this one is to have the last word.
pub(super) const TRIGGER: &str = "zz_outboxd_migrate";

/// Row filters of publications came with 15.
const OLDEST_VERSION_NUM: i32 = 150_000;

/// So many rows that wait for the poller are counted.
pub(super) const UNSENT_MAX: i64 = 100_000;

const TRIGGER_STATE: &str =
    "select tgenabled in ('O', 'A') from pg_trigger where tgrelid = $1 and tgname = $2 and not tgisinternal";

/// What there is: the progress of a migration is read from it.
pub(super) struct Site {
    pub(super) parts: Arc<RelayParts>,
    pub(super) options: Options,
    pub(super) sql: Sql,
    pub(super) server: ServerFacts,
    pub(super) table: TableFacts,
    pub(super) mark: Mark,
    pub(super) publication: Option<PublicationFacts>,
    pub(super) slot: Option<SlotFacts>,
    /// Whether the trigger is there, and switched on.
    pub(super) trigger: Option<bool>,
    pub(super) unsent: Unsent,
    /// How outboxd is to be started, when that is asked and nothing reads the slot.
    pub(super) run: Option<String>,
}

/// Rows that wait for the poller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unsent {
    pub(super) rows: i64,
    /// Whether there may be more.
    pub(super) at_least: bool,
}

impl Site {
    /// Asks the server; changes nothing.
    pub(super) async fn look(args: &TargetArgs) -> Result<Self, MigrateError> {
        let parts = Arc::new(assemble(&args.config)?.parts);
        let options = parts.postgres.clone();
        let sql = open(&options.server, APPLICATION).await?;
        let capture = Capture::find(&sql, &parts).await?;
        let [table] = capture.tables.as_slice() else {
            return Err(MigrateError::NotOneTable(capture.tables.iter().map(tables::name).collect()));
        };
        let (server, columns) = (sql.server().await?, sql.describe(table.oid).await?);
        let publication = sql.publication(&options.publication.name).await?;
        let kept = publication.as_ref().and_then(|publication| publication.handover.as_ref());
        let name = tables::name(table);
        let mark = match kept {
            Some(kept) => Mark::kept(&name, &columns, kept)?,
            None => Mark::find(&name, &columns, args.mark.as_deref(), &args.unsent)?,
        };
        let slot = sql.slot(&options.slot.name).await?;
        let (trigger, unsent) =
            (trigger(&sql, table.oid).await?, Unsent::count(&sql, table, &mark, UNSENT_MAX).await?);
        Ok(Self {
            parts,
            table: table.clone(),
            options,
            sql,
            server,
            mark,
            publication,
            slot,
            trigger,
            unsent,
            run: None,
        })
    }

    pub(super) const fn database(&self) -> Database<'_> {
        Database { sql: &self.sql, server: &self.options.server }
    }

    /// Whether rows are outboxd's and nobody sends them.
    pub(super) fn waits_for_outboxd(&self) -> bool {
        let is_read = self.slot.as_ref().is_some_and(|slot| slot.active_pid.is_some());
        self.phase() == Phase::Drained && !is_read
    }

    /// The table, as messages name it.
    pub(super) fn name(&self) -> String {
        tables::name(&self.table)
    }

    pub(super) fn slot_name(&self) -> &str {
        self.options.slot.name.as_str()
    }

    /// Whether this server can be migrated on.
    pub(super) fn check_server(&self) -> Result<(), MigrateError> {
        if self.server.version_num < OLDEST_VERSION_NUM {
            return Err(MigrateError::TooOld { major: self.server.version_num / 10_000 });
        }
        if self.server.in_recovery {
            return Err(Error::Standby.into());
        }
        if !self.server.can_decode() {
            return Err(MigrateError::WalLevel(self.server.wal_level.clone()));
        }
        Ok(())
    }

    /// Whether a migration can begin, or go on.
    pub(super) fn check_beginning(&self) -> Result<(), MigrateError> {
        match self.phase() {
            Phase::Foreign => Err(MigrateError::ForeignPublication(self.options.publication.name.clone())),
            Phase::NotBegun if self.slot.is_some() => {
                Err(MigrateError::OlderSlot(self.slot_name().to_owned()))
            }
            // New rows are outboxd's already: another slot would not have those that were written so far.
            Phase::Draining | Phase::Drained => self.check_slot().map(drop),
            Phase::NotBegun
            | Phase::Published
            | Phase::Slotted
            | Phase::Finishing
            | Phase::Finished
            | Phase::Returned => Ok(()),
        }
    }

    /// Whether the slot still has what it must send.
    pub(super) fn check_slot(&self) -> Result<&SlotFacts, MigrateError> {
        let lost = |because| MigrateError::SlotLost { slot: self.slot_name().to_owned(), because };
        let slot = self.slot.as_ref().ok_or_else(|| lost(None))?;
        match slot.invalidation() {
            Some(because) => Err(lost(Some(because))),
            None => Ok(slot),
        }
    }

    /// The same when nobody may be reading it.
    pub(super) fn check_stopped(&self) -> Result<(), MigrateError> {
        match self.slot.as_ref().and_then(|slot| slot.active_pid) {
            Some(pid) => Err(MigrateError::Running { slot: self.slot_name().to_owned(), pid }),
            None => Ok(()),
        }
    }

    /// The statement that keeps how far it is.
    pub(super) fn note(&self, phase: HandoverPhase) -> String {
        let comment = self.mark.handover(phase).text();
        format!(
            "COMMENT ON PUBLICATION {} IS {}",
            postgres_protocol::escape::escape_identifier(&self.options.publication.name),
            postgres_protocol::escape::escape_literal(&comment).trim_start()
        )
    }
}

impl Unsent {
    pub(super) async fn count(sql: &Sql, table: &TableFacts, mark: &Mark, most: i64) -> Result<Self, Error> {
        const DOING: &str = "counting the rows that wait for the poller";
        let text = format!(
            "select count(*) from (select from {} where {} limit $1) as waiting",
            table.quoted(),
            mark.is_unsent()
        );
        let rows = sql.query(DOING, &text, &[&most]).await?;
        let row =
            rows.first().ok_or(Error::Unexpected { message: "empty answer".to_owned(), doing: DOING })?;
        let rows: i64 = row.try_get(0).map_err(|error| Error::sql(DOING, error))?;
        Ok(Self { rows, at_least: rows >= most })
    }

    /// As `no row`, `1 row`, `at least 100,000 rows`.
    pub(super) fn shown(self) -> String {
        let count = indicatif::HumanCount(u64::try_from(self.rows).unwrap_or_default());
        match (self.rows, self.at_least) {
            (0, _) => "no row".to_owned(),
            (1, false) => "1 row".to_owned(),
            (_, false) => format!("{count} rows"),
            (_, true) => format!("at least {count} rows"),
        }
    }
}

async fn trigger(sql: &Sql, table: Oid) -> Result<Option<bool>, Error> {
    const DOING: &str = "looking for the trigger";
    let rows = sql.query(DOING, TRIGGER_STATE, &[&table.0, &TRIGGER]).await?;
    rows.first().map(|row| row.try_get(0).map_err(|error| Error::sql(DOING, error))).transpose()
}
