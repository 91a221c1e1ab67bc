//! Objects of a migration from a poller.

use std::sync::Arc;

use super::mark::Mark;
use super::phase::Phase;
use super::steps;
use crate::cli::change::migrate::args::TargetArgs;
use crate::cli::change::migrate::error::MigrateError;
use crate::cli::prove::check::tables;
use crate::cli::run::assemble::assemble;
use crate::cli::shell::sql::open;
use crate::cli::shell::steps::Database;
use crate::postgres::{
    Error, HandoverPhase, Options, PublicationFacts, ServerFacts, SlotFacts, Sql, TableFacts,
};
use crate::relay::{Capture, RelayParts};
use crate::wal::Oid;

/// `application_name` of the command's sessions in `pg_stat_activity`.
pub(super) const APPLICATION: &str = "outboxd migrate";

/// Name of the trigger. Triggers of one event fire in the order of their names, and this one must be the last.
pub(super) const TRIGGER: &str = "zz_outboxd_migrate";

/// Name of the trigger that counts outboxd's rows that a program marks.
pub(super) const COUNT_TRIGGER: &str = "zz_outboxd_migrate_marked";

/// Oldest version with row filters of publications.
const OLDEST_VERSION_NUM: i32 = 150_000;

/// Maximum number of waiting rows that are counted.
pub(super) const UNSENT_MAX: i64 = 100_000;

const TRIGGER_STATE: &str =
    "select tgenabled in ('O', 'A') from pg_trigger where tgrelid = $1 and tgname = $2 and not tgisinternal";

/// Query for the counter: no row without the sequence, 0 if it was not advanced since it was created or restarted.
const MARKED: &str = "
select coalesce(pg_sequence_last_value(to_regclass($1)), 0) from pg_class where oid = to_regclass($1)";

/// Existing objects, from which the progress of a migration is read.
pub(super) struct Site {
    pub(super) parts: Arc<RelayParts>,
    pub(super) options: Options,
    pub(super) sql: Sql,
    pub(super) server: ServerFacts,
    pub(super) table: TableFacts,
    pub(super) mark: Mark,
    pub(super) publication: Option<PublicationFacts>,
    pub(super) slot: Option<SlotFacts>,
    /// True if the trigger is switched on; none if it does not exist.
    pub(super) trigger: Option<bool>,
    pub(super) unsent: Unsent,
    /// Columns whose UPDATE shows that a program marks rows: the mark, and others that may be one.
    pub(super) set_columns: Vec<String>,
    /// Number of outboxd's rows that a program has marked, which shows that it reads by another column. None without
    /// the counter, which migrations of older versions do not have.
    pub(super) marked: Option<i64>,
    /// Command that starts outboxd, set by `status` when nothing reads the slot.
    pub(super) run: Option<String>,
}

/// Rows that wait for the poller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unsent {
    pub(super) rows: i64,
    /// True if there may be more.
    pub(super) at_least: bool,
}

impl Site {
    /// Reads the state from the server, and changes nothing.
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
            None => {
                let conditions = sql.index_conditions(table.oid).await?;
                Mark::find(&name, &columns, &conditions, args.mark.as_deref(), &args.unsent)?
            }
        };
        let slot = sql.slot(&options.slot.name).await?;
        let (trigger, unsent) =
            (trigger(&sql, table.oid).await?, Unsent::count(&sql, table, &mark, UNSENT_MAX).await?);
        let mut site = Self {
            set_columns: mark.set_columns(&columns),
            marked: None,
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
        };
        site.marked = site.count_marked().await?;
        Ok(site)
    }

    /// Returns the number of outboxd's rows that a program has marked.
    pub(super) async fn count_marked(&self) -> Result<Option<i64>, Error> {
        const DOING: &str = "counting rows that a program still marks";
        let rows = self.sql.query(DOING, MARKED, &[&steps::counter(self)]).await?;
        rows.first().map(|row| row.try_get(0).map_err(|error| Error::sql(DOING, error))).transpose()
    }

    /// Refuses a migration if a program has marked `rows` of outboxd's rows: the mark is not the poller's.
    pub(super) fn check_marked(&self, rows: i64) -> Result<(), MigrateError> {
        if rows == 0 {
            return Ok(());
        }
        let others = self.set_columns.iter().skip(1).cloned().collect();
        Err(MigrateError::StillMarked {
            table: self.name(),
            rows,
            mark: self.mark.column().to_owned(),
            others,
        })
    }

    /// Checks the marked rows of a migration whose poller has no rows of its own left.
    pub(super) fn check_unmarked(&self) -> Result<(), MigrateError> {
        match (self.phase(), self.marked) {
            (Phase::Drained | Phase::Finishing, Some(rows)) => self.check_marked(rows),
            _ => Ok(()),
        }
    }

    pub(super) const fn database(&self) -> Database<'_> {
        Database { sql: &self.sql, server: &self.options.server }
    }

    /// Returns whether rows are outboxd's and no process sends them.
    pub(super) fn waits_for_outboxd(&self) -> bool {
        let is_read = self.slot.as_ref().is_some_and(|slot| slot.active_pid.is_some());
        self.phase() == Phase::Drained && !is_read
    }

    /// Returns the table's name for messages.
    pub(super) fn name(&self) -> String {
        tables::name(&self.table)
    }

    pub(super) fn slot_name(&self) -> &str {
        self.options.slot.name.as_str()
    }

    /// Checks that the server supports a migration.
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

    /// Checks that a migration can begin or continue.
    pub(super) fn check_beginning(&self) -> Result<(), MigrateError> {
        match self.phase() {
            Phase::Foreign => Err(MigrateError::ForeignPublication(self.options.publication.name.clone())),
            Phase::NotBegun if self.slot.is_some() => {
                Err(MigrateError::OlderSlot(self.slot_name().to_owned()))
            }
            // New rows are outboxd's already: another slot would not contain those that were written so far.
            Phase::Draining | Phase::Drained => self.check_slot().map(drop),
            Phase::NotBegun
            | Phase::Published
            | Phase::Slotted
            | Phase::Finishing
            | Phase::Finished
            | Phase::Returned => Ok(()),
        }
    }

    /// Returns the slot, or an error if it does not exist or is invalidated.
    pub(super) fn check_slot(&self) -> Result<&SlotFacts, MigrateError> {
        let lost = |because| MigrateError::OwnSlotLost { slot: self.slot_name().to_owned(), because };
        let slot = self.slot.as_ref().ok_or_else(|| lost(None))?;
        match slot.invalidation() {
            Some(because) => Err(lost(Some(because))),
            None => Ok(slot),
        }
    }

    /// Checks that no process reads the slot.
    pub(super) fn check_stopped(&self) -> Result<(), MigrateError> {
        match self.slot.as_ref().and_then(|slot| slot.active_pid) {
            Some(pid) => Err(MigrateError::Running { slot: self.slot_name().to_owned(), pid }),
            None => Ok(()),
        }
    }

    /// Returns the statement that stores the phase.
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

    /// Returns the number as text: `no row`, `1 row`, `at least 100,000 rows`.
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
