//! What there is, what is missing, and what would make it.

use std::sync::Arc;

use super::args::InitArgs;
use super::error::InitError;
use super::found::{Found, find, name};
use super::given::Given;
use super::mark::{Mark, Unmarked};
use super::proposal::{Surroundings, settings};
use super::shape::Shape;
use super::topics::Topics;
use super::{objects, topics};
use crate::cli::assemble::assemble_sources;
use crate::cli::steps::Step;
use crate::postgres::{Sql, TableFacts};
use crate::relay::{Capture, RelayParts};
use crate::wal::Oid;

/// More rows than that are not counted.
const ROWS_MAX: i64 = 100_000;

/// The columns of sql/outbox.sql.
const NEW: [&str; 7] =
    ["id", "aggregate_type", "aggregate_id", "event_type", "payload", "headers", "created_at"];

/// Everything that is shown before anything is made.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) parts: Arc<RelayParts>,
    pub(super) table: TableFacts,
    /// What its columns are; none when the user's configuration says so.
    pub(super) shape: Option<Shape>,
    /// The column that a polling relay marks, and how many rows it has not.
    pub(super) poller: Option<(Mark, Unmarked)>,
    /// Rows that are in the table, as far as they are counted.
    pub(super) rows: i64,
    pub(super) steps: Vec<Step>,
    pub(super) topics: Topics,
    /// The configuration that is to be written; none when there is one.
    pub(super) written: Option<Vec<(String, String)>>,
}

impl Plan {
    pub(super) async fn make(args: &InitArgs, given: &Given, sql: &Sql) -> Result<Self, InitError> {
        let database = given.server.database.as_str();
        let (found, proposed, parts) = match &given.file {
            Some(_) => settled(args, given, sql).await?,
            None => proposed(args, given, sql, database).await?,
        };
        let (table, is_new) = found.table;
        let mark =
            found.shape.as_ref().and_then(|shape| shape.mark.clone()).filter(|_| !args.no_poller && !is_new);
        let poller = match mark {
            Some(mark) => {
                let unmarked = mark.unmarked(sql, &table).await?;
                Some((mark, unmarked))
            }
            None => None,
        };
        let mut steps = Vec::new();
        if is_new {
            steps.push(objects::table(false));
        }
        steps.extend(objects::role(sql, &given.role, database, &table).await?);
        // While a program sends the rows, the way over decides which of them the publication has.
        if poller.is_none() {
            steps.push(objects::publication(sql, &parts.postgres.publication, &table).await?);
            if args.create_slot {
                steps.push(objects::slot(sql, parts.postgres.slot.name.as_str()).await?);
            }
        }
        let denied = |error: InitError| error.or_grant(&table, &given.server.user);
        let topics = match (given.has_brokers, is_new) {
            (true, false) => topics::look(&parts, sql, &table).await.map_err(denied)?,
            (true, true) => topics::look_for(&parts, Vec::new()).await?,
            (false, _) => Topics::default(),
        };
        let rows = if is_new { 0 } else { rows(sql, &table).await.map_err(denied)? };
        let written = proposed.map(|proposed| given.written(proposed, args.kafka.as_deref()));
        Ok(Self { parts, table, shape: found.shape, poller, rows, steps, topics, written })
    }

    /// Whether everything is as it should be.
    pub(super) fn is_done(&self) -> bool {
        self.written.is_none() && self.steps.iter().all(|step| step.done) && self.topics.missing.is_empty()
    }

    /// The table, as messages name it.
    pub(super) fn table(&self) -> String {
        name(&self.table)
    }
}

/// The table, whether it is to be made, and what its columns are.
struct Outbox {
    table: (TableFacts, bool),
    shape: Option<Shape>,
}

type Decided = (Outbox, Option<Vec<(String, String)>>, Arc<RelayParts>);

/// There is a configuration: what it captures is the outbox.
async fn settled(args: &InitArgs, given: &Given, sql: &Sql) -> Result<Decided, InitError> {
    let parts = Arc::new(assemble_sources(&given.sources)?.parts);
    if parts.route.outbox().is_none() {
        return Err(InitError::ChangeEvents { path: given.file.clone().unwrap_or_default() });
    }
    let table = match Capture::find(sql, &parts).await {
        Ok(capture) => capture.tables.into_iter().next().map(|table| (table, false)),
        Err(_) if args.create_table && parts.tables.matches("public", "outbox") && !is_there(sql).await? => {
            None
        }
        Err(error) => return Err(InitError::Relay(Box::new(error))),
    };
    let table = table.unwrap_or_else(|| (new_table(), true));
    let shape = match table.1 {
        true => None,
        false => {
            let whole = name(&table.0);
            find(sql, &given.server.database, Some(&whole), None)
                .await
                .ok()
                .flatten()
                .map(|found| found.shape)
        }
    };
    Ok((Outbox { table, shape }, None, parts))
}

/// There is none: the columns say what it should be.
async fn proposed(args: &InitArgs, given: &Given, sql: &Sql, database: &str) -> Result<Decided, InitError> {
    let found = find(sql, database, args.table.as_deref(), args.preset.as_deref()).await?;
    let (table, is_new, shape) = match found {
        Some(Found { table, shape }) => (table, false, shape),
        None if args.create_table => {
            let columns = NEW.map(|column| (column.to_owned(), String::new()));
            let shape = Shape::of("outbox", &columns, None);
            (new_table(), true, shape.ok_or_else(|| InitError::NoOutbox(database.to_owned()))?)
        }
        None => return Err(InitError::NoOutbox(database.to_owned())),
    };
    let around =
        Surroundings { database, table: &table, topic: args.topic.as_deref(), polled: shape.mark.is_some() };
    let proposed = settings(&shape, around);
    let parts = Arc::new(assemble_sources(&given.with(&proposed))?.parts);
    if !is_new {
        // What it asks for is held against the table as outboxd run would.
        Capture::find(sql, &parts).await.map_err(|error| InitError::Relay(Box::new(error)))?;
    }
    Ok((Outbox { table: (table, is_new), shape: Some(shape) }, Some(proposed), parts))
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

async fn rows(sql: &Sql, table: &TableFacts) -> Result<i64, InitError> {
    const DOING: &str = "counting the rows of the table";
    let text = format!("select count(*) from (select from {} limit {ROWS_MAX} + 1) s", table.quoted());
    let rows = sql.query(DOING, &text, &[]).await?;
    let count = rows.first().map_or(Ok(0), |row| row.try_get(0));
    Ok(count.map_err(|error| crate::postgres::Error::sql(DOING, error))?)
}
