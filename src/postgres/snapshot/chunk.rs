//! Reads a table in chunks, beside the stream, and writes their marks.

use postgres_protocol::escape::{escape_identifier, escape_literal};

use super::rewritten;
use crate::connect::column::ColumnDescription;
use crate::postgres::connections::connection::Connection;
use crate::postgres::{Error, Options, TlsSetup};
use crate::signal::{ChunkKey, PgSnapshot};
use crate::wal::Oid;
use crate::wire::BackendMessage;

/// Most bytes of a chunk. Rows beyond are read with the next chunk.
const CHUNK_BYTES_MAX: usize = 64 << 20;

/// The one cursor of a connection.
const CURSOR: &str = "outboxd_snapshot";

/// The schema of PostgreSQL's own operators.
pub(crate) const CATALOG: &str = "pg_catalog";

const CURRENT_SNAPSHOT: &str = "SELECT pg_catalog.pg_current_snapshot()";

/// A connection for chunks and watermarks.
#[derive(Debug)]
pub(crate) struct ChunkConnection {
    connection: Connection,
}

/// A column by which a table is ordered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OrderColumn {
    pub(crate) name: String,
    pub(crate) not_null: bool,
    /// The schema of the operators that compare its values.
    pub(crate) operators: String,
}

/// Query of a table's rows in order.
#[derive(Debug)]
pub(crate) struct ChunkQuery<'q> {
    /// Name, quoted for SQL.
    pub(crate) table: String,
    pub(crate) columns: &'q [ColumnDescription],
    /// Columns that distinguish each row from every other one.
    pub(crate) order: &'q [OrderColumn],
    pub(crate) filter: Option<&'q str>,
}

/// Rows that were read.
#[derive(Debug)]
pub(crate) struct ReadChunk {
    /// The values of each row, in the query's order; then those of the columns by which it is ordered.
    pub(crate) rows: Vec<Vec<Option<Vec<u8>>>>,
    pub(crate) visible: PgSnapshot,
}

impl ChunkConnection {
    /// Connects. Its commits wait for no standby: one that waits for us would wait for ever.
    ///
    /// # Errors
    /// When no connection can be established.
    pub(crate) async fn open(options: &Options, tls: &TlsSetup, application: &str) -> Result<Self, Error> {
        let limit = options.message_bytes_max;
        let mut connection = Connection::open_to_read(&options.server, tls, application, limit).await?;
        connection.command("preparing to read chunks", "SET synchronous_commit = local").await?;
        Ok(Self { connection })
    }

    /// Runs a statement whose answer is a row of texts, or none.
    ///
    /// # Errors
    /// When the server refuses it or the connection breaks.
    pub(crate) async fn ask(&mut self, doing: &str, statement: &str) -> Result<Option<ChunkKey>, Error> {
        Ok(self.connection.command(doing, statement).await?.into_iter().next())
    }

    /// Reads the rows of a statement in a transaction of its own.
    ///
    /// # Errors
    /// When the server refuses it or the connection breaks.
    pub(crate) async fn read(&mut self, statement: &str) -> Result<ReadChunk, Error> {
        const DOING: &str = "reading a chunk";
        self.ask(DOING, "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY").await?;
        let visible = self.ask(DOING, CURRENT_SNAPSHOT).await;
        let rows = match visible {
            Ok(_) => self.rows(statement, CHUNK_BYTES_MAX).await,
            Err(error) => return Err(error),
        };
        // A statement that was refused has ended the transaction's work, and this its life.
        self.ask(DOING, "ROLLBACK").await?;
        let visible = visible.ok().flatten().and_then(|row| PgSnapshot::parse(row.first()?.as_deref()?));
        let unexpected = || Error::Unexpected { message: "answer".to_owned(), doing: DOING };
        Ok(ReadChunk { rows: rows?, visible: visible.ok_or_else(unexpected)? })
    }

    /// Begins a transaction with a snapshot of the present, until its cursors are read.
    ///
    /// # Errors
    /// When the server refuses it or the connection breaks.
    pub(crate) async fn begin(&mut self) -> Result<PgSnapshot, Error> {
        const DOING: &str = "beginning a snapshot";
        self.ask(DOING, "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY").await?;
        let row = self.ask(DOING, CURRENT_SNAPSHOT).await?;
        let visible = row.and_then(|row| PgSnapshot::parse(row.first()?.as_deref()?));
        visible.ok_or_else(|| Error::Unexpected { message: "answer".to_owned(), doing: DOING })
    }

    /// Declares the cursor that [`Self::fetch`] reads, and returns the names of its columns.
    ///
    /// # Errors
    /// When the server refuses it or the connection breaks.
    pub(crate) async fn declare(&mut self, statement: &str) -> Result<Vec<String>, Error> {
        const DOING: &str = "reading a table";
        self.ask(DOING, &format!("DECLARE {CURSOR} NO SCROLL CURSOR FOR {statement}")).await?;
        let fetch = format!("FETCH 0 FROM {CURSOR}");
        self.connection.send(|out| postgres_protocol::message::frontend::query(&fetch, out)).await?;
        let (mut names, mut refusal) = (Vec::new(), None);
        loop {
            match self.connection.receive(DOING).await? {
                BackendMessage::RowDescription(columns) => {
                    names = columns.into_iter().map(str::to_owned).collect();
                }
                BackendMessage::ErrorResponse(source) => {
                    refusal = Some(Error::Server { doing: DOING.to_owned(), source: Box::new(source) });
                }
                BackendMessage::ReadyForQuery => return refusal.map_or(Ok(names), Err),
                _ => {}
            }
        }
    }

    /// Reads the next rows of the cursor.
    ///
    /// # Errors
    /// When the server refuses it or the connection breaks.
    pub(crate) async fn fetch(&mut self, rows_max: usize) -> Result<Vec<Vec<Option<Vec<u8>>>>, Error> {
        self.rows(&format!("FETCH {rows_max} FROM {CURSOR}"), usize::MAX).await
    }

    /// Closes the cursor, which has read this table.
    ///
    /// # Errors
    /// When the table was rewritten before; or when the server refuses it or the connection breaks.
    pub(crate) async fn close_cursor(&mut self, table: Oid) -> Result<(), Error> {
        self.ask("reading a table", &format!("CLOSE {CURSOR}")).await?;
        rewritten::check(&mut self.connection, table).await
    }

    async fn rows(&mut self, statement: &str, bytes_max: usize) -> Result<Vec<Vec<Option<Vec<u8>>>>, Error> {
        const DOING: &str = "reading a chunk";
        self.connection.send(|out| postgres_protocol::message::frontend::query(statement, out)).await?;
        let (mut rows, mut bytes, mut refusal) = (Vec::new(), 0_usize, None);
        loop {
            match self.connection.receive(DOING).await? {
                BackendMessage::DataRow(_) if bytes >= bytes_max => {}
                BackendMessage::DataRow(values) => {
                    let row: Vec<Option<Vec<u8>>> =
                        values.into_iter().map(|value| value.map(<[u8]>::to_vec)).collect();
                    let weight: usize = row.iter().flatten().map(Vec::len).sum();
                    bytes = bytes.saturating_add(weight);
                    rows.push(row);
                }
                BackendMessage::ErrorResponse(source) => {
                    refusal = Some(Error::Server { doing: DOING.to_owned(), source: Box::new(source) });
                }
                BackendMessage::ReadyForQuery => return refusal.map_or(Ok(rows), Err),
                BackendMessage::RowDescription(_)
                | BackendMessage::CommandComplete
                | BackendMessage::NoticeResponse(_)
                | BackendMessage::ParameterStatus { .. } => {}
                other => return Err(Error::Unexpected { message: Connection::name(&other), doing: DOING }),
            }
        }
    }
}

impl ChunkQuery<'_> {
    /// Returns the statement that reads the last key.
    pub(crate) fn last_key(&self) -> String {
        let descending: Vec<_> =
            self.order.iter().map(|column| format!("{} DESC", column.quoted())).collect();
        let conditions = self.conditions(None, None);
        let (keys, table) = (self.keys(), &self.table);
        format!("SELECT {keys} FROM {table}{conditions} ORDER BY {} LIMIT 1", descending.join(", "))
    }

    /// Returns the statement that counts the rows.
    pub(crate) fn count(&self) -> String {
        format!("SELECT pg_catalog.count(*) FROM {}{}", self.table, self.conditions(None, None))
    }

    /// Returns the statement that reads the rows after a key, up to the last one.
    pub(crate) fn rows(&self, after: Option<&ChunkKey>, end: &ChunkKey, rows_max: usize) -> String {
        let mut columns: Vec<_> = self.columns.iter().map(|column| escape_identifier(&column.name)).collect();
        columns.push(self.keys());
        let conditions = self.conditions(after, Some(end));
        let (columns, keys, table) = (columns.join(", "), self.keys(), &self.table);
        format!("SELECT {columns} FROM {table}{conditions} ORDER BY {keys} LIMIT {rows_max}")
    }

    fn keys(&self) -> String {
        self.order.iter().map(OrderColumn::quoted).collect::<Vec<_>>().join(", ")
    }

    fn conditions(&self, after: Option<&ChunkKey>, end: Option<&ChunkKey>) -> String {
        let mut conditions: Vec<String> = Vec::new();
        conditions.extend(after.map(|after| self.from(after)));
        conditions.extend(end.map(|end| self.not_behind(end)));
        conditions.extend(self.filter.map(|filter| format!("({filter})")));
        if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) }
    }

    fn not_behind(&self, key: &ChunkKey) -> String {
        match self.row_of(key) {
            Some((schema, row)) => format!("({}) {} ({row})", self.keys(), operator(schema, "<=")),
            None => format!("NOT {}", self.behind(key)),
        }
    }

    /// Returns the condition for rows from a key on. Debezium's key may be shorter than outboxd's, and other
    /// rows with it may not be sent yet.
    fn from(&self, key: &ChunkKey) -> String {
        let behind = self.behind(key);
        if key.is_empty() || key.len() >= self.order.len() {
            return behind;
        }
        let same = self.order.iter().zip(key).map(|(column, value)| match value.as_deref().map(literal) {
            Some(value) => format!("{} {} {value}", column.quoted(), column.operator("=")),
            None => format!("{} IS NULL", column.quoted()),
        });
        format!("({behind} OR ({}))", same.collect::<Vec<_>>().join(" AND "))
    }

    /// Returns the condition for rows after a key. NULL comes last, because a comparison with it would be
    /// NULL.
    fn behind(&self, key: &ChunkKey) -> String {
        if let Some((schema, row)) = self.row_of(key) {
            return format!("({}) {} ({row})", self.keys(), operator(schema, ">"));
        }
        let (mut same, mut cases) = (String::new(), Vec::new());
        for (column, value) in self.order.iter().zip(key) {
            let name = column.quoted();
            match value.as_deref().map(literal) {
                Some(value) => {
                    let [greater, equal] = [">", "="].map(|operator| column.operator(operator));
                    cases.push(format!("({same}({name} {greater} {value} OR {name} IS NULL))"));
                    same = format!("{same}{name} {equal} {value} AND ");
                }
                None => same = format!("{same}{name} IS NULL AND "),
            }
        }
        if cases.is_empty() { "false".to_owned() } else { format!("({})", cases.join(" OR ")) }
    }

    /// Returns the schema of the operators and the key as a row, when neither the key nor a column can be NULL and all columns have
    /// their operators in one schema: an index serves such a comparison.
    fn row_of(&self, key: &ChunkKey) -> Option<(&str, String)> {
        if key.len() != self.order.len() || self.order.iter().any(|column| !column.not_null) {
            return None;
        }
        let schema = self.order.first()?.operators.as_str();
        if self.order.iter().any(|column| column.operators != schema) {
            return None;
        }
        let values: Option<Vec<_>> = key.iter().map(|value| value.as_deref().map(literal)).collect();
        values.map(|values| (schema, values.join(", ")))
    }
}

impl OrderColumn {
    fn quoted(&self) -> String {
        escape_identifier(&self.name)
    }

    fn operator(&self, name: &str) -> String {
        operator(&self.operators, name)
    }
}

/// Returns an operator with its schema: an unqualified one may be another user's, which fits the types
/// better.
fn operator(schema: &str, name: &str) -> String {
    match schema {
        CATALOG => format!("OPERATOR({CATALOG}.{name})"),
        schema => format!("OPERATOR({}.{name})", escape_identifier(schema)),
    }
}

fn literal(text: &str) -> String {
    escape_literal(text).trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(columns: &[(&str, bool)]) -> Vec<OrderColumn> {
        let column = |(name, not_null): &(&str, bool)| OrderColumn {
            name: (*name).to_owned(),
            not_null: *not_null,
            operators: CATALOG.to_owned(),
        };
        columns.iter().map(column).collect()
    }

    fn key(values: &[Option<&str>]) -> ChunkKey {
        values.iter().map(|value| value.map(str::to_owned)).collect()
    }

    #[test]
    fn a_chunk_is_what_lies_between_two_keys() {
        let order = order(&[("a", true), ("B", true)]);
        let query = ChunkQuery { table: "t".to_owned(), columns: &[], order: &order, filter: Some("x or y") };
        let (after, end) = (key(&[Some("1"), Some("o'x")]), key(&[Some("9"), Some("z")]));
        assert_eq!(
            query.rows(Some(&after), &end, 7),
            r#"SELECT "a", "B" FROM t WHERE ("a", "B") OPERATOR(pg_catalog.>) ('1', 'o''x') AND ("a", "B") OPERATOR(pg_catalog.<=) ('9', 'z') AND (x or y) ORDER BY "a", "B" LIMIT 7"#
        );
        assert_eq!(
            query.last_key(),
            r#"SELECT "a", "B" FROM t WHERE (x or y) ORDER BY "a" DESC, "B" DESC LIMIT 1"#
        );
        assert_eq!(query.count(), "SELECT pg_catalog.count(*) FROM t WHERE (x or y)");
    }

    #[test]
    fn rows_that_a_shorter_key_does_not_distinguish_are_read_again() {
        let order = order(&[("v", true), ("id", true)]);
        let query = ChunkQuery { table: "t".to_owned(), columns: &[], order: &order, filter: None };
        let (after, end) = (key(&[Some("5")]), key(&[Some("9")]));
        assert_eq!(
            query.conditions(Some(&after), Some(&end)),
            r#" WHERE (((("v" OPERATOR(pg_catalog.>) '5' OR "v" IS NULL))) OR ("v" OPERATOR(pg_catalog.=) '5')) AND NOT ((("v" OPERATOR(pg_catalog.>) '9' OR "v" IS NULL)))"#
        );
    }

    #[test]
    fn null_comes_last() {
        let order = order(&[("s", false), ("id", true)]);
        let query = ChunkQuery { table: "t".to_owned(), columns: &[], order: &order, filter: None };
        let cases = [
            (
                key(&[Some("5"), Some("1")]),
                r#"(("s" OPERATOR(pg_catalog.>) '5' OR "s" IS NULL)) OR ("s" OPERATOR(pg_catalog.=) '5' AND ("id" OPERATOR(pg_catalog.>) '1' OR "id" IS NULL))"#,
            ),
            (
                key(&[None, Some("1")]),
                r#"("s" IS NULL AND ("id" OPERATOR(pg_catalog.>) '1' OR "id" IS NULL))"#,
            ),
        ];
        for (after, expected) in cases {
            assert_eq!(query.behind(&after), format!("({expected})"));
        }
    }

    /// An operator of an extension's type is in the extension's schema, and orders its values as its index does.
    #[test]
    fn operators_are_named_with_their_schema() {
        let mut order = order(&[("name", true), ("id", true)]);
        order[0].operators = "Ext".to_owned();
        let query = ChunkQuery { table: "t".to_owned(), columns: &[], order: &order, filter: None };
        assert_eq!(
            query.behind(&key(&[Some("a"), Some("1")])),
            r#"((("name" OPERATOR("Ext".>) 'a' OR "name" IS NULL)) OR ("name" OPERATOR("Ext".=) 'a' AND ("id" OPERATOR(pg_catalog.>) '1' OR "id" IS NULL)))"#
        );
        order[1].operators = "Ext".to_owned();
        let query = ChunkQuery { table: "t".to_owned(), columns: &[], order: &order, filter: None };
        assert_eq!(
            query.behind(&key(&[Some("a"), Some("1")])),
            r#"("name", "id") OPERATOR("Ext".>) ('a', '1')"#
        );
    }
}
