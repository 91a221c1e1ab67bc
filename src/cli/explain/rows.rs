use postgres_protocol::escape::escape_identifier;
use serde::Serialize;
use tokio_postgres::Row;

use super::error::ExplainError;
use super::wanted::Wanted;
use crate::cli::check::tables::{self, Outbox};
use crate::cli::sql::open;
use crate::postgres::{Error, SlotFacts, Sql};
use crate::relay::RelayParts;

/// How our sessions are named in `pg_stat_activity`.
const APPLICATION: &str = "outboxd explain";

/// So many rows of a table are shown.
const ROWS_MAX: i64 = 100;

/// What PostgreSQL knows.
#[derive(Debug)]
pub(super) struct Database {
    pub(super) rows: Vec<FoundRow>,
    /// `None` when there is no such slot.
    pub(super) slot: Option<SlotFacts>,
    pub(super) slot_name: String,
    /// Why rows of some table could not be looked at.
    pub(super) unread: Vec<String>,
}

/// A row that is still in its table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct FoundRow {
    pub(super) table: String,
    pub(super) id: Option<String>,
    pub(super) key: Option<String>,
    /// The transaction that wrote it.
    pub(super) transaction: String,
    /// When that committed; only with `track_commit_timestamp=on`.
    pub(super) committed: Option<String>,
    /// What decides its topic.
    #[serde(skip)]
    pub(super) route: Option<String>,
}

impl Database {
    pub(super) async fn ask(parts: &RelayParts, wanted: &Wanted) -> Result<Self, ExplainError> {
        let router = parts.route.outbox().ok_or(ExplainError::NoOutbox)?;
        let sql = open(&parts.postgres.server, APPLICATION).await?;
        let slot = sql.slot(&parts.postgres.slot.name).await?;
        let all = sql.tables().await?;
        let (captured, _) = tables::captured(&parts.tables, &parts.route, parts.messages.is_some(), &all);
        let (mut rows, mut unread) = (Vec::new(), Vec::new());
        for table in captured.iter().filter(|_| wanted.lsn.is_none()) {
            let (outbox, _) = tables::bind(router, table, sql.describe(table.oid).await?);
            let Some(outbox) = outbox else { continue };
            match find(&sql, &outbox, wanted).await {
                Ok(found) => rows.extend(found),
                Err(error) => unread.push(crate::error::chain(&error)),
            }
        }
        Ok(Self { rows, slot, slot_name: parts.postgres.slot.name.to_string(), unread })
    }
}

async fn find(sql: &Sql, outbox: &Outbox, wanted: &Wanted) -> Result<Vec<FoundRow>, Error> {
    let name = tables::name(&outbox.table);
    let doing = format!("looking for the row in {name}");
    let found = sql.query(&doing, &statement(outbox, wanted), &[&wanted.text, &ROWS_MAX]).await?;
    found.iter().map(|row| read(row, &name).map_err(|error| Error::sql(doing.as_str(), error))).collect()
}

fn read(row: &Row, table: &str) -> Result<FoundRow, tokio_postgres::Error> {
    Ok(FoundRow {
        table: table.to_owned(),
        id: row.try_get(0)?,
        key: row.try_get(1)?,
        route: row.try_get(2)?,
        transaction: row.try_get(3)?,
        committed: row.try_get(4)?,
    })
}

/// Compares as text: what the column's type is does not matter.
fn statement(outbox: &Outbox, wanted: &Wanted) -> String {
    let column = |name: Option<&str>| name.map(|name| format!("{}::text", escape_identifier(name)));
    let [id, key, route] = [outbox.id_column(), outbox.key_column(), outbox.route_column()].map(column);
    let conditions = [(wanted.id, &id), (wanted.key, &key)];
    let conditions: Vec<_> = conditions
        .into_iter()
        .filter_map(|(is_wanted, column)| {
            column.as_ref().filter(|_| is_wanted).map(|column| format!("{column} = $1"))
        })
        .collect();
    let shown = |column: Option<String>| column.unwrap_or_else(|| "null::text".to_owned());
    let condition = if conditions.is_empty() { "$1 is null".to_owned() } else { conditions.join(" or ") };
    // pg_xact_commit_timestamp fails where commit times are not kept.
    format!(
        "select {}, {}, {}, xmin::text, case when current_setting('track_commit_timestamp') = 'on' then \
         to_char(pg_xact_commit_timestamp(xmin) at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') end \
         from {} where {condition} limit $2",
        shown(id),
        shown(key),
        shown(route),
        outbox.table.quoted()
    )
}
