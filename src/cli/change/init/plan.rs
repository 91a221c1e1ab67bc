//! Existing objects, missing ones, and the steps that create them.

use std::sync::Arc;

use super::args::InitArgs;
use super::error::InitError;
use super::given::Given;
use super::outbox::{self, Outbox, Poller};
use super::tables::{self, Tables};
use super::topics::Topics;
use crate::cli::run::assemble::assemble_sources;
use crate::cli::shell::steps::Step;
use crate::postgres::{Sql, TableFacts};
use crate::relay::RelayParts;

/// Maximum number of rows of a table that are counted.
pub(super) const ROWS_MAX: i64 = 100_000;

/// Configuration to write; none when there is one already.
pub(super) type Written = Option<Vec<(String, String)>>;

/// Everything that is shown before any object is created.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) parts: Arc<RelayParts>,
    pub(super) what: What,
    /// Number of existing rows; more than [`ROWS_MAX`] means more than that.
    pub(super) rows: i64,
    pub(super) slot: SlotBefore,
    pub(super) steps: Vec<Step>,
    pub(super) topics: Topics,
    pub(super) written: Written,
}

/// State of the slot before the first start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotBefore {
    Absent,
    /// `--create-slot` creates it.
    Made,
    There,
}

impl SlotBefore {
    pub(super) const fn of(step: &Step, args: &InitArgs) -> Self {
        match (step.done, args.create_slot) {
            (true, _) => Self::There,
            (false, true) => Self::Made,
            (false, false) => Self::Absent,
        }
    }
}

/// Kind of what is sent.
#[derive(Debug)]
pub(super) enum What {
    Outbox(Box<Outbox>),
    Tables(Tables),
}

impl Plan {
    pub(super) async fn make(args: &InitArgs, given: &Given, sql: &Sql) -> Result<Self, InitError> {
        match (&given.file, &args.tables) {
            (Some(file), _) => {
                let parts = Arc::new(assemble_sources(&given.sources)?.parts);
                match parts.route.changes() {
                    Some(_) => tables::settled(args, given, sql, file, parts).await,
                    None if args.tables.is_some() => Err(InitError::Outbox { path: file.clone() }),
                    None => outbox::settled(args, given, sql, parts).await,
                }
            }
            (None, Some(tables)) => tables::proposed(args, given, sql, tables).await,
            (None, None) => outbox::proposed(args, given, sql).await,
        }
    }

    /// Returns whether nothing is left to do.
    pub(super) fn is_done(&self) -> bool {
        self.written.is_none() && self.steps.iter().all(|step| step.done) && self.topics.missing.is_empty()
    }

    /// Returns the columns in which a program that polls the outbox may mark its rows, if there are any.
    pub(super) const fn poller(&self) -> Option<&Poller> {
        match &self.what {
            What::Outbox(outbox) => outbox.poller.as_ref(),
            What::Tables(_) => None,
        }
    }
}

/// Counts the rows of the tables. Counting ends at a limit.
pub(super) async fn rows(sql: &Sql, tables: &[TableFacts]) -> Result<i64, InitError> {
    const DOING: &str = "counting the rows of the table";
    let mut all = 0_i64;
    for table in tables {
        let text = format!("select count(*) from (select from {} limit {ROWS_MAX} + 1) s", table.quoted());
        let rows = sql.query(DOING, &text, &[]).await?;
        let count: i64 = rows
            .first()
            .map_or(Ok(0), |row| row.try_get(0))
            .map_err(|error| crate::postgres::Error::sql(DOING, error))?;
        all = all.saturating_add(count);
        if all > ROWS_MAX {
            break;
        }
    }
    Ok(all)
}
