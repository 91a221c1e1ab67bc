//! What there is, what is missing, and what would make it.

use std::sync::Arc;

use super::args::InitArgs;
use super::error::InitError;
use super::given::Given;
use super::mark::{Mark, Unmarked};
use super::outbox::{self, Outbox};
use super::tables::{self, Tables};
use super::topics::Topics;
use crate::cli::assemble::assemble_sources;
use crate::cli::steps::Step;
use crate::postgres::{Sql, TableFacts};
use crate::relay::RelayParts;

/// More rows of a table than that are not counted.
pub(super) const ROWS_MAX: i64 = 100_000;

/// The configuration that is to be written; none when there is one.
pub(super) type Written = Option<Vec<(String, String)>>;

/// Everything that is shown before anything is made.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) parts: Arc<RelayParts>,
    pub(super) what: What,
    /// Rows that are there, as far as they are counted.
    pub(super) rows: i64,
    pub(super) slot: SlotBefore,
    pub(super) steps: Vec<Step>,
    pub(super) topics: Topics,
    pub(super) written: Written,
}

/// The slot before the first start, which takes no snapshot where there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotBefore {
    Absent,
    /// `--create-slot` makes it.
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

/// What is sent.
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

    /// Whether everything is as it should be.
    pub(super) fn is_done(&self) -> bool {
        self.written.is_none() && self.steps.iter().all(|step| step.done) && self.topics.missing.is_empty()
    }

    /// What a program that polls the outbox marks.
    pub(super) const fn poller(&self) -> Option<&(Mark, Unmarked)> {
        match &self.what {
            What::Outbox(outbox) => outbox.poller.as_ref(),
            What::Tables(_) => None,
        }
    }
}

/// How many rows the tables have. Of one that has more than can be counted soon, as many as are counted.
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
