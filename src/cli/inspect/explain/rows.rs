//! Rows of an event in PostgreSQL.

use std::borrow::Cow;
use std::sync::Arc;

use postgres_protocol::escape::{escape_identifier, escape_literal};
use serde::Serialize;
use tokio_postgres::Row;

use super::error::ExplainError;
use super::wanted::{Compared, Wanted};
use crate::cli::prove::check::tables;
use crate::cli::prove::check::tables::Outbox;
use crate::cli::prove::verify::NamedRows;
use crate::cli::shell::next_start::next_start;
use crate::cli::shell::sql::open;
use crate::postgres::{Error, SlotFacts, Sql, TableFacts};
use crate::relay::{Capture, RelayParts, Route, learn_hypertables};

/// `application_name` of the command's sessions in `pg_stat_activity`.
const APPLICATION: &str = "outboxd explain";

/// Most rows of a table that are shown.
const ROWS_MAX: i64 = 100;

/// State of the event in PostgreSQL.
#[derive(Debug)]
pub(super) struct Database {
    pub(super) rows: Vec<FoundRow>,
    /// `None` when there is no such slot.
    pub(super) slot: Option<SlotFacts>,
    pub(super) slot_name: String,
    /// The next start's action, where no slot sends the row: a summary, and the fix if one is needed.
    pub(super) next_start: Option<(String, Option<String>)>,
    /// The reasons why rows of some tables could not be read.
    pub(super) unread: Vec<String>,
    /// Tables whose rows have no key.
    pub(super) keyless: Vec<String>,
}

/// A query of rows.
struct Search<'w> {
    statement: String,
    /// Texts that it compares with.
    texts: Vec<Cow<'w, str>>,
}

/// A row that is still in its table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct FoundRow {
    pub(super) table: String,
    pub(super) id: Option<String>,
    pub(super) key: Option<String>,
    /// The transaction that wrote it.
    pub(super) transaction: String,
    /// Its commit time; only with `track_commit_timestamp=on`.
    pub(super) committed: Option<String>,
    /// True if the server stores commit times.
    #[serde(skip)]
    pub(super) keeps_commit_times: bool,
    /// Value that decides its topic.
    #[serde(skip)]
    pub(super) route: Option<String>,
    /// The topic of its table, when its changes are events of a topic that is known.
    #[serde(skip)]
    pub(super) topic: Option<String>,
}

impl Database {
    pub(super) async fn ask(parts: &Arc<RelayParts>, wanted: &Wanted) -> Result<Self, ExplainError> {
        let sql = open(&parts.postgres.server, APPLICATION).await?;
        let slot = sql.slot(&parts.postgres.slot.name).await?;
        let all = sql.tables().await?;
        let (captured, _) = tables::captured(&parts.tables, &parts.route, parts.may_capture_none(), &all);
        if captured.is_empty() {
            // Its error has the reason, where there should be one.
            Capture::find(&sql, parts).await.map_err(|error| ExplainError::Relay(Box::new(error)))?;
        }
        learn_hypertables(&sql, &parts.route).await?;
        let (mut rows, mut unread, mut keyless) = (Vec::new(), Vec::new(), Vec::new());
        for table in captured.iter().filter(|_| wanted.lsn.is_none()) {
            let columns = sql.describe(table.oid).await?;
            let mut topic = None;
            let searched = match &parts.route {
                Route::Outbox(router) => {
                    tables::bind(router, table, columns).0.map(|outbox| of_outbox(&outbox, wanted))
                }
                Route::Changes(changes) => match tables::bind_routed(&parts.route, table, &columns).0 {
                    Some((_, outbox)) => Some(of_outbox(&outbox, wanted)),
                    None => {
                        let key = changes.key_columns(&table.schema, &table.name, &columns);
                        if key.is_empty() {
                            keyless.push(tables::name(table));
                        }
                        topic = changes.topic_of(&table.schema, &table.name);
                        by_key(table, &key, wanted)
                    }
                },
            };
            let Some(search) = searched else { continue };
            match find(&sql, table, search).await {
                Ok(found) => {
                    rows.extend(found.into_iter().map(|row| FoundRow { topic: topic.clone(), ..row }));
                }
                Err(error) => unread.push(crate::error::chain(&error)),
            }
        }
        let is_usable = slot.as_ref().is_some_and(|slot| slot.invalidation().is_none());
        let next_start = if is_usable { None } else { Some(next_start(parts, &sql).await) };
        let slot_name = parts.postgres.slot.name.to_string();
        Ok(Self { rows, slot, slot_name, next_start, unread, keyless })
    }
}

impl Database {
    /// Reads the expected records of the outbox rows, if possible.
    pub(super) async fn named_rows(&mut self, parts: &Arc<RelayParts>) -> Option<NamedRows> {
        let ids: Vec<String> = self.rows.iter().filter_map(|row| row.id.clone()).collect();
        if ids.is_empty() || parts.route.outbox().is_none() {
            return None;
        }
        let reading = async {
            let sql = open(&parts.postgres.server, APPLICATION).await?;
            NamedRows::read(parts, &sql, APPLICATION, &ids).await
        };
        match reading.await {
            Ok(rows) => Some(rows),
            Err(error) => {
                let reason = crate::error::chain(&error);
                self.unread.push(format!("whether records with its id are its own: {reason}"));
                None
            }
        }
    }
}

async fn find(
    sql: &Sql,
    table: &TableFacts,
    Search { statement, texts }: Search<'_>,
) -> Result<Vec<FoundRow>, Error> {
    let name = tables::name(table);
    let doing = format!("looking for the row in {name}");
    let found = sql.query(&doing, &statement, &[&texts, &ROWS_MAX]).await?;
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
        keeps_commit_times: row.try_get(5)?,
        topic: None,
    })
}

fn of_outbox<'w>(outbox: &Outbox, wanted: &'w Wanted) -> Search<'w> {
    let texts = wanted.texts().into_iter().map(Cow::Borrowed).collect();
    Search { statement: statement(outbox, wanted), texts }
}

/// Compares as text: what the column's type is does not matter.
fn statement(outbox: &Outbox, wanted: &Wanted) -> String {
    let column = |name: Option<&str>| name.map(|name| format!("{}::text", escape_identifier(name)));
    let [id, key, route] = [outbox.id_column(), outbox.key_column(), outbox.route_column()].map(column);
    let conditions = [(wanted.id, &id), (wanted.key, &key)];
    let conditions: Vec<_> = conditions
        .into_iter()
        .filter_map(|(is_wanted, column)| {
            column.as_ref().filter(|_| is_wanted).map(|column| format!("{column} = any($1)"))
        })
        .collect();
    let shown = |column: Option<String>| column.unwrap_or_else(|| "null::text".to_owned());
    let condition =
        if conditions.is_empty() { "$1::text[] is null".to_owned() } else { conditions.join(" or ") };
    select([shown(id), shown(key), shown(route)], &outbox.table, &condition)
}

/// Searches for the row of a table that is no outbox.
fn by_key<'w>(table: &TableFacts, key: &[&str], wanted: &'w Wanted) -> Option<Search<'w>> {
    let text = |column: &str| format!("{}::text", escape_identifier(column));
    let (conditions, texts): (Vec<_>, Vec<_>) = match wanted.compared(key)? {
        Compared::Any(columns) => {
            let one =
                columns.into_iter().map(|column| format!("{} = any($1)", text(column))).collect::<Vec<_>>();
            (vec![one.join(" or ")], wanted.texts().into_iter().map(Cow::Borrowed).collect())
        }
        Compared::Each(columns) => (1..)
            .zip(columns)
            .map(|(at, (column, said))| (format!("{} = ($1::text[])[{at}]", text(column)), Cow::Owned(said)))
            .unzip(),
    };
    let shown = match key {
        [] => return None,
        [column] => text(column),
        columns => {
            let pair = |column: &&str| format!("{}, {}", escape_literal(column), escape_identifier(column));
            let pairs = columns.iter().map(pair);
            format!("json_build_object({})::text", pairs.collect::<Vec<_>>().join(", "))
        }
    };
    let none = || "null::text".to_owned();
    let statement = select([none(), shown, none()], table, &conditions.join(" and "));
    Some(Search { statement, texts })
}

/// Returns the query of rows. pg_xact_commit_timestamp fails where commit times are not stored.
fn select([id, key, route]: [String; 3], table: &TableFacts, condition: &str) -> String {
    format!(
        "select {id}, {key}, {route}, xmin::text, case when current_setting('track_commit_timestamp') = 'on' then \
         to_char(pg_xact_commit_timestamp(xmin) at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') end, \
         current_setting('track_commit_timestamp') = 'on' \
         from {} where {condition} limit $2",
        table.quoted()
    )
}
