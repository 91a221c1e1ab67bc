//! Does what the incremental snapshot asks of the database: writes watermarks, reads chunks. It has a connection of its own.

mod scan;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use postgres_protocol::escape::{escape_identifier, escape_literal};
use tokio::time::sleep;

use scan::Scanner;

use crate::change::ChangeTable;
use crate::connect::column::{ColumnDescription, civil_date};
use crate::error::{Class, Diagnose as _, chain};
use crate::pgoutput::ColumnValue;
use crate::postgres::{self, CATALOG, ChunkConnection, ChunkQuery, OrderColumn, Sql, TableFacts, TlsSetup};
use crate::relay::capture::hypertables;
use crate::relay::capture::preflight::application;
use crate::relay::capture::resolution::{read_whole, relation_of};
use crate::relay::capture::route::Bound;
use crate::relay::parts::RelayParts;
use crate::relay::pipeline::signals::{Done, MESSAGE_PREFIX, ReadTable, Task};
use crate::relay::time::backoff::Backoff;
use crate::relay::time::clock::Now;
use crate::signal::{Answer, Ask, Chunk, ChunkKey, ChunkRequest, NoChunk, ReadRow, Scanned, Watermarks};

/// Pause before a chunk is read again that did not see what the stream has sent.
const AGAIN_INTERVAL: Duration = Duration::from_millis(20);

const REPLAYED: &str =
    "SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() END";

/// Reads chunks and writes watermarks.
#[derive(Debug)]
pub(in crate::relay) struct ChunkReader<'s> {
    parts: &'s RelayParts,
    tls: &'s TlsSetup,
    sql: Arc<Sql>,
    /// The server takes no watermarks.
    is_standby: bool,
    connection: Option<ChunkConnection>,
    /// Checks the conditions and statements of signals.
    checker: Option<Sql>,
    /// The blocking snapshot that is being read.
    scanner: Option<Scanner>,
    /// True if it has waited for `snapshot.delay.ms`.
    has_waited: bool,
    /// Contents of the open watermark.
    opened: Vec<(&'static str, String)>,
    backoff: Backoff,
}

/// A question on its way. Dropping it withdraws the question.
pub(in crate::relay) type PendingChunk<'s> =
    Pin<Box<dyn Future<Output = (ChunkReader<'s>, Done)> + Send + 's>>;

/// A table that can be read, or why it cannot.
enum Look {
    Found(Box<Found>),
    Nothing(NoChunk),
}

struct Found {
    facts: TableFacts,
    columns: Vec<ColumnDescription>,
    order: Vec<OrderColumn>,
    table: ReadTable,
}

impl<'s> ChunkReader<'s> {
    pub(in crate::relay) fn new(
        parts: &'s RelayParts,
        tls: &'s TlsSetup,
        sql: &Arc<Sql>,
        is_standby: bool,
    ) -> Self {
        let (sql, backoff) = (Arc::clone(sql), Backoff::default());
        Self {
            parts,
            tls,
            sql,
            is_standby,
            connection: None,
            checker: None,
            scanner: None,
            has_waited: false,
            opened: Vec::new(),
            backoff,
        }
    }

    /// Does what is asked.
    pub(in crate::relay) fn begin(mut self, task: Task) -> PendingChunk<'s> {
        Box::pin(async move {
            let is_scan = matches!(task, Task::Scan(_));
            let done = match self.act(task).await {
                Ok(done) => {
                    self.backoff = Backoff::default();
                    done
                }
                Err(error) => self.failed(&error, is_scan).await,
            };
            (self, done)
        })
    }

    async fn act(&mut self, task: Task) -> Result<Done, postgres::Error> {
        match task {
            Task::Chunk(ask) => self.act_on_chunk(ask).await,
            Task::Scan(ask) => self.scan(ask).await,
        }
    }

    async fn act_on_chunk(&mut self, ask: Ask) -> Result<Done, postgres::Error> {
        match ask {
            Ask::Open { .. } | Ask::Close { .. } if self.is_standby => self.replayed().await,
            Ask::Open { id, correlation, table } => {
                self.opened = vec![("openWindowTimestamp", instant(Now::read().unix_us))];
                self.opened.extend(correlation.map(|id| ("correlationId", id)));
                self.opened.push(("dataCollectionId", table));
                let statement = self.open(&id);
                self.write("writing the watermark that opens a chunk", &statement).await
            }
            Ask::Close { id } => {
                let statement = self.close(&id);
                self.write("writing the watermark that closes a chunk", &statement).await
            }
            Ask::Read { request, again } => {
                if again {
                    sleep(AGAIN_INTERVAL).await;
                }
                self.read(&request).await
            }
        }
    }

    /// Returns how far the standby has replayed. One that was promoted is none, and what was read of it is
    /// discarded: other clients may not have seen yet what it had sent.
    async fn replayed(&mut self) -> Result<Done, postgres::Error> {
        const DOING: &str = "asking how far the standby is";
        let row = self.connection().await?.ask(DOING, REPLAYED).await?;
        let lsn = row.and_then(|row| row.first()?.as_deref()?.parse().ok());
        let answer = Answer::Replayed(lsn.ok_or(postgres::Error::Promoted)?);
        Ok(Done::Chunk { answer, table: None })
    }

    async fn write(&mut self, doing: &str, statement: &str) -> Result<Done, postgres::Error> {
        match self.connection().await?.ask(doing, statement).await {
            Err(error @ postgres::Error::Server { .. }) if error.class() != Class::Transient => {
                tracing::error!(
                    error = chain(&error),
                    fix = error.fix(),
                    "incremental snapshot: signal.data.collection must be a table into which the role may insert"
                );
                Ok(Done::Chunk { answer: Answer::Refused, table: None })
            }
            written => written.map(|_| Done::Chunk { answer: Answer::Written, table: None }),
        }
    }

    async fn read(&mut self, request: &ChunkRequest) -> Result<Done, postgres::Error> {
        let found = match self.look(request).await? {
            Look::Found(found) => *found,
            Look::Nothing(reason) => {
                return Ok(Done::Chunk { answer: Answer::Read(Err(reason)), table: None });
            }
        };
        let table = found.table.clone();
        match self.chunk(request, found).await {
            Err(error @ postgres::Error::Server { .. }) if error.class() != Class::Transient => {
                let name = &request.table;
                tracing::error!(
                    table = name,
                    error = chain(&error),
                    "incremental snapshot: cannot read a chunk"
                );
                Ok(Done::Chunk { answer: Answer::Read(Err(NoChunk::Failed)), table: None })
            }
            read => read.map(|read| Done::Chunk { answer: Answer::Read(read), table: Some(table) }),
        }
    }

    /// Returns the present state of the table.
    async fn look(&mut self, request: &ChunkRequest) -> Result<Look, postgres::Error> {
        let all = self.sql.tables().await?;
        let named = |facts: &&TableFacts| format!("{}.{}", facts.schema, facts.name) == request.table;
        let Some(facts) = all.into_iter().find(|facts| named(&facts)) else {
            return Ok(Look::Nothing(NoChunk::Unknown));
        };
        if !self.parts.tables.matches(&facts.schema, &facts.name) || self.parts.tables.is_signals(&facts) {
            return Ok(Look::Nothing(NoChunk::Unknown));
        }
        let columns: Vec<_> = self.sql.describe(facts.oid).await?.iter().map(read_whole).collect();
        hypertables::learn_chunk(&self.sql, &self.parts.route, &facts.schema, &facts.name).await?;
        let bound = match self.parts.route.bind(&relation_of(&facts, &columns), &columns) {
            Ok(Bound::Changes(table)) => Arc::new(*table),
            _ => return Ok(Look::Nothing(NoChunk::Unknown)),
        };
        if bound.key_columns().next().is_none() {
            return Ok(Look::Nothing(NoChunk::NoKey));
        }
        let key: Vec<String> = match self.sql.primary_key(facts.oid).await? {
            primary if primary.is_empty() => {
                let key = bound.key_columns().map(str::to_owned);
                // Such a key need not distinguish each row from every other one.
                key.chain(["tableoid".to_owned(), "ctid".to_owned()]).collect()
            }
            primary => primary,
        };
        let schemas = self.sql.operator_schemas(facts.oid).await?;
        let mut order = Vec::new();
        for name in leading(request, &bound, &key).into_iter().chain(key) {
            if order.iter().any(|known: &OrderColumn| known.name == name) {
                continue;
            }
            let known = columns.iter().find(|column| column.name == name);
            let is_of_system = ["tableoid", "ctid"].contains(&name.as_str());
            if known.is_none() && !is_of_system {
                tracing::warn!(
                    table = request.table,
                    column = name,
                    "signal: surrogate-key: the column does not exist"
                );
                return Ok(Look::Nothing(NoChunk::Failed));
            }
            let operators = schemas.get(&name).map_or(CATALOG, String::as_str).to_owned();
            let not_null = known.is_none_or(|column| column.not_null);
            order.push(OrderColumn { name, not_null, operators });
        }
        let table = ReadTable { oid: facts.oid, bound };
        Ok(Look::Found(Box::new(Found { facts, columns, order, table })))
    }

    async fn chunk(
        &mut self,
        request: &ChunkRequest,
        found: Found,
    ) -> Result<Result<Chunk, NoChunk>, postgres::Error> {
        let Found { facts, columns, order, table } = found;
        let (name, filter) = (facts.quoted(), request.filter.as_deref());
        let query = ChunkQuery { table: name, columns: &columns, order: &order, filter };
        if filter.is_some() {
            // A filter that ends the statement and begins another is refused here.
            self.checker().await?.check("checking the filter of a signal", &query.count()).await?;
        }
        let connection = self.connection().await?;
        let (width, order_columns) = (columns.len(), described(&order, &columns));
        // The values of other columns do not apply to these.
        let fits = request.columns.as_ref().is_none_or(|before| *before == order_columns);
        let (after, end) = if fits { (request.after.as_ref(), request.end.as_ref()) } else { (None, None) };
        let end = match end {
            Some(end) => end.clone(),
            None => match connection.ask("looking for the last key of a table", &query.last_key()).await? {
                Some(end) => end,
                None => return Ok(Err(NoChunk::Empty)),
            },
        };
        let total = match request.counts {
            true => {
                connection.ask("counting a table's rows", &query.count()).await?.and_then(|row| number(&row))
            }
            false => None,
        };
        let statement = query.rows(after, &end, request.rows_max);
        let read = connection.read(&statement).await?;
        let last = read.rows.last().map(|row| key_of(row, width));
        let places = self.parts.relay.transactions.is_some();
        let rows = read.rows.into_iter().map(|row| readable(row, width, &table, places)).collect();
        Ok(Ok(Chunk {
            table: table.oid,
            rows,
            last,
            end,
            columns: order_columns,
            total,
            visible: read.visible,
        }))
    }

    /// Returns the connection, which is opened when it is first needed.
    async fn connection(&mut self) -> Result<&mut ChunkConnection, postgres::Error> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let options = &self.parts.postgres;
                ChunkConnection::open(options, self.tls, &application(options)).await?
            }
        };
        Ok(self.connection.insert(connection))
    }

    /// Returns the session that checks what users write, with the role's own `search_path`. It is opened when
    /// it is first needed.
    async fn checker(&mut self) -> Result<&Sql, postgres::Error> {
        let sql = match self.checker.take().filter(|sql| !sql.is_closed()) {
            Some(sql) => sql,
            None => {
                let options = &self.parts.postgres;
                let sql = Sql::open(&options.server, self.tls, &application(options)).await?;
                sql.use_role_names().await?;
                sql
            }
        };
        Ok(self.checker.insert(sql))
    }

    async fn failed(&mut self, error: &postgres::Error, is_scan: bool) -> Done {
        (self.connection, self.checker, self.scanner) = (None, None, None);
        tracing::warn!(error = chain(error), "a snapshot of a signal was interrupted; resuming");
        sleep(self.backoff.next(fastrand::f64())).await;
        match is_scan {
            true => Done::Scan { scanned: Scanned::Lost, table: None },
            false => Done::Chunk { answer: Answer::Lost, table: None },
        }
    }

    fn open(&self, id: &str) -> String {
        self.insert(&format!("{id}-open"), "snapshot-window-open", &self.opened)
    }

    fn close(&self, id: &str) -> String {
        let options = &self.parts.relay.signals;
        if let (Watermarks::InsertDelete, Some(table)) = (options.watermarks, &options.table) {
            let id = literal(&format!("{id}-open"));
            return format!("DELETE FROM {} WHERE id OPERATOR(pg_catalog.=) {id}", quoted(table));
        }
        let mut data = self.opened.clone();
        data.insert(1.min(data.len()), ("closeWindowTimestamp", instant(Now::read().unix_us)));
        self.insert(&format!("{id}-close"), "snapshot-window-close", &data)
    }

    fn insert(&self, id: &str, kind: &str, data: &[(&'static str, String)]) -> String {
        let options = &self.parts.relay.signals;
        match (options.watermarks, &options.table) {
            (Watermarks::InsertInsert | Watermarks::InsertDelete, Some(table)) => {
                let members = data
                    .iter()
                    .map(|(name, text)| format!("\"{name}\": {}", serde_json::Value::String(text.clone())));
                let data = format!("{{{}}}", members.collect::<Vec<_>>().join(", "));
                let values = [id, kind, &data].map(literal).join(", ");
                format!("INSERT INTO {} VALUES ({values})", quoted(table))
            }
            _ => {
                let [prefix, id] = [MESSAGE_PREFIX, id].map(literal);
                format!("SELECT pg_catalog.pg_logical_emit_message(true, {prefix}, {id})")
            }
        }
    }
}

/// Returns the columns by which rows are ordered before the key that distinguishes them: the surrogate key,
/// or else `message.key.columns`, as in Debezium.
fn leading(request: &ChunkRequest, table: &ChangeTable, key: &[String]) -> Vec<String> {
    if let Some(surrogate) = &request.surrogate_key {
        return vec![surrogate.clone()];
    }
    let chosen: Vec<String> = table.key_columns().map(str::to_owned).collect();
    let is_chosen = chosen.len() != key.len() || !chosen.iter().all(|name| key.contains(name));
    if is_chosen { chosen } else { Vec::new() }
}

/// Makes a row of the stream's form, with its place if that is needed.
fn readable(mut values: Vec<Option<Vec<u8>>>, columns: usize, table: &ReadTable, has_place: bool) -> ReadRow {
    let place = has_place.then(|| key_of(&values, columns));
    values.truncate(columns);
    let row: Vec<ColumnValue<'_>> =
        values.iter().map(|value| value.as_deref().map_or(ColumnValue::Null, ColumnValue::Text)).collect();
    let key = table.bound.raw_key(&row).unwrap_or_default();
    drop(row);
    ReadRow { key, values, place }
}

/// Returns the key behind a row's columns, by which it was ordered.
fn key_of(row: &[Option<Vec<u8>>], columns: usize) -> ChunkKey {
    let text =
        |value: &Option<Vec<u8>>| value.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    row.iter().skip(columns).map(text).collect()
}

fn number(row: &ChunkKey) -> Option<u64> {
    row.first()?.as_deref()?.parse().ok()
}

/// Returns `schema.table`, quoted for SQL.
fn quoted(name: &str) -> String {
    let (schema, table) = name.split_once('.').unwrap_or(("public", name));
    format!("{}.{}", escape_identifier(schema), escape_identifier(table))
}

fn literal(text: &str) -> String {
    escape_literal(text).trim_start().to_owned()
}

/// Formats a time as Java's `Instant` does.
fn instant(unix_us: i64) -> String {
    let (days, us) = (unix_us.div_euclid(86_400_000_000), unix_us.rem_euclid(86_400_000_000));
    let (year, month, day) = civil_date(days);
    let (seconds, fraction) = (us / 1_000_000, us % 1_000_000);
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{fraction:06}Z")
}

/// Returns names and types, which show whether a stored place is one of these columns.
fn described(order: &[OrderColumn], columns: &[ColumnDescription]) -> Vec<String> {
    let type_of =
        |name: &str| columns.iter().find(|column| column.name == name).map_or(0, |column| column.type_oid.0);
    order.iter().map(|column| format!("{} {}", column.name, type_of(&column.name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_written_as_java_writes_them() {
        assert_eq!(instant(1_795_423_425_000_007), "2026-11-23T08:43:45.000007Z");
        assert_eq!(quoted("a.b.c"), r#""a"."b.c""#);
    }
}
