//! Outbox: its table, and the plan for it.

use std::slice;
use std::sync::Arc;

use super::args::InitArgs;
use super::error::InitError;
use super::found::{Found, find, name};
use super::given::Given;
use super::mark::{Mark, Unmarked};
use super::plan::{Plan, SlotBefore, What, Written, rows};
use super::proposal::{Surroundings, settings};
use super::role::role;
use super::shape::Shape;
use super::topics::Topics;
use super::{objects, topics};
use crate::cli::run::assemble::assemble_sources;
use crate::postgres::{Sql, TableFacts};
use crate::relay::{Capture, RelayParts};
use crate::wal::Oid;

/// Columns of sql/outbox.sql.
const NEW: [&str; 7] =
    ["id", "aggregate_type", "aggregate_id", "event_type", "payload", "headers", "created_at"];

/// An outbox.
#[derive(Debug)]
pub(super) struct Outbox {
    table: TableFacts,
    /// Shape of its columns; none when the user's configuration names them.
    pub(super) shape: Option<Shape>,
    pub(super) poller: Option<Poller>,
}

/// Columns in which a polling relay may mark its rows.
#[derive(Debug)]
pub(super) struct Poller {
    /// Likeliest mark.
    pub(super) mark: Mark,
    /// Rows that the relay has not marked.
    pub(super) unmarked: Unmarked,
    /// Other columns that may be the mark.
    pub(super) others: Vec<String>,
}

impl Poller {
    async fn find(sql: &Sql, table: &TableFacts, marks: Vec<Mark>) -> Result<Option<Self>, InitError> {
        let marks = Mark::by_indexes(marks, &sql.index_conditions(table.oid).await?);
        let mut marks = marks.into_iter();
        let Some(mark) = marks.next() else { return Ok(None) };
        let others = marks.filter_map(|mark| mark.column().map(str::to_owned)).collect();
        Ok(Some(Self { unmarked: mark.unmarked(sql, table).await?, mark, others }))
    }
}

impl Outbox {
    /// Returns the table's name for messages.
    pub(super) fn name(&self) -> String {
        name(&self.table)
    }
}

/// Plans for an existing configuration, which captures the outbox.
pub(super) async fn settled(
    args: &InitArgs,
    given: &Given,
    sql: &Sql,
    parts: Arc<RelayParts>,
) -> Result<Plan, InitError> {
    let table = match Capture::find(sql, &parts).await {
        Ok(capture) => capture.tables.into_iter().next(),
        Err(_) if args.create_table && parts.tables.matches("public", "outbox") && !is_there(sql).await? => {
            None
        }
        Err(error) => return Err(InitError::Relay(Box::new(error))),
    };
    let Some(table) = table else {
        return planned(
            args,
            given,
            sql,
            PlannedTable { facts: new_table(), is_new: true, shape: None },
            parts,
            None,
        )
        .await;
    };
    let whole = name(&table);
    let found = find(sql, &given.server.database, Some(&whole), None).await.ok().flatten();
    let shape = found.map(|found| found.shape);
    planned(args, given, sql, PlannedTable { facts: table, is_new: false, shape }, parts, None).await
}

/// Plans without a configuration, which is derived from the columns.
pub(super) async fn proposed(args: &InitArgs, given: &Given, sql: &Sql) -> Result<Plan, InitError> {
    let database = given.server.database.as_str();
    let found = find(sql, database, args.table.as_deref(), args.preset.as_deref()).await?;
    let (table, is_new, shape) = match found {
        Some(Found { table, shape }) => (table, false, shape),
        None if args.create_table => {
            let columns = NEW.map(|column| (column.to_owned(), String::new()));
            let Some(shape) = Shape::of("outbox", &columns, None) else {
                return Err(no_outbox(sql, database).await?);
            };
            (new_table(), true, shape)
        }
        None => return Err(no_outbox(sql, database).await?),
    };
    let around = Surroundings {
        database,
        table: &table,
        topic: args.topic.as_deref(),
        polled: !shape.marks.is_empty(),
    };
    let proposed = settings(&shape, around);
    let parts = Arc::new(assemble_sources(&given.with(&proposed))?.parts);
    if !is_new {
        // Checks the requirements of the table in the same way as `outboxd run`.
        Capture::find(sql, &parts).await.map_err(|error| InitError::Relay(Box::new(error)))?;
    }
    let written = given.written(proposed, args.kafka.as_deref());
    let table = PlannedTable { facts: table, is_new, shape: Some(shape) };
    planned(args, given, sql, table, parts, Some(written)).await
}

/// Outbox of a plan.
struct PlannedTable {
    facts: TableFacts,
    /// True if the plan creates it.
    is_new: bool,
    /// Meanings of its columns, if they are known.
    shape: Option<Shape>,
}

async fn planned(
    args: &InitArgs,
    given: &Given,
    sql: &Sql,
    PlannedTable { facts: table, is_new, shape }: PlannedTable,
    parts: Arc<RelayParts>,
    written: Written,
) -> Result<Plan, InitError> {
    let all = slice::from_ref(&table);
    let marks = shape.as_ref().filter(|_| !args.no_poller && !is_new).map(|shape| shape.marks.clone());
    let poller = Poller::find(sql, &table, marks.unwrap_or_default()).await?;
    let slot_step = objects::slot(sql, parts.postgres.slot.name.as_str()).await?;
    let slot = SlotBefore::of(&slot_step, args);
    let mut steps = Vec::new();
    if is_new {
        steps.push(objects::table(false));
    }
    steps.extend(role(sql, &given.role, &given.server.database, all).await?);
    // While a program sends the rows, the migration determines which of them the publication has.
    if poller.is_none() {
        steps.extend(objects::publication(sql, &parts.postgres.publication, all).await?);
        steps.extend(args.create_slot.then(|| slot_step.clone()));
    }
    let denied = |error: InitError| error.or_grant(all, &given.server.user);
    let topics = match (given.has_brokers, is_new) {
        (true, false) => topics::look(&parts, sql, &table).await.map_err(denied)?,
        (true, true) => topics::look_for(&parts, Vec::new()).await?,
        (false, _) => Topics::default(),
    };
    let rows = if is_new { 0 } else { rows(sql, all).await.map_err(denied)? };
    let what = What::Outbox(Box::new(Outbox { table, shape, poller }));
    Ok(Plan { parts, what, rows, slot, steps, topics, written })
}

/// Returns the error, with some tables of the database whose changes could be sent instead.
async fn no_outbox(sql: &Sql, database: &str) -> Result<InitError, InitError> {
    const SHOWN: usize = 3;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let all = sql.tables().await?;
    let names = all.iter().filter(|table| table.root.is_none() && table.logged).map(name);
    let tables = names.filter(|name| name.chars().all(is_plain)).take(SHOWN).collect();
    Ok(InitError::NoOutbox { database: database.to_owned(), tables })
}

async fn is_there(sql: &Sql) -> Result<bool, InitError> {
    Ok(sql.tables().await?.iter().any(|table| name(table) == "public.outbox"))
}

fn new_table() -> TableFacts {
    TableFacts {
        oid: Oid(0),
        schema: "public".to_owned(),
        name: "outbox".to_owned(),
        partitioned: false,
        root: None,
        logged: true,
        columns: NEW.map(str::to_owned).to_vec(),
    }
}
