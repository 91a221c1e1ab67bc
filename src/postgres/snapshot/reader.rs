//! Reads whole tables, or ranges of their pages, as of an exported snapshot.

use postgres_protocol::message::frontend;

use super::rewritten;
use crate::connect::column::ColumnDescription;
use crate::pgoutput::{ColumnValue, Tuple};
use crate::postgres::connections::connection::Connection;
use crate::postgres::connections::login::CATALOG_NAMES;
use crate::postgres::{Error, Options, SnapshotOptions, TableFacts, TlsSetup};
use crate::wal::{Oid, Xid};
use crate::wire::BackendMessage;

/// A scan that joins another one begins in the middle of the table, and several workers mix their rows.
const IN_ORDER: &str = "SET synchronize_seqscans = off; SET max_parallel_workers_per_gather = 0";

const XMIN: &str = "SELECT pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::pg_catalog.xid";

/// Reader of tables in one snapshot, row by row, without collecting them.
#[derive(Debug)]
pub(crate) struct SnapshotReader {
    connection: Connection,
}

/// Step of the reader.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is matched at once and never kept: a box would be an allocation a row"
)]
pub(crate) enum SnapshotRow<'a> {
    /// The table's rows have these columns.
    Columns(Vec<String>),
    /// A row.
    Row(Tuple<'a>),
    /// The table is read.
    End,
}

impl SnapshotReader {
    /// Opens a session whose transaction has this snapshot, or one of the present.
    ///
    /// # Errors
    /// When no connection can be established or the snapshot does not exist any more.
    pub(crate) async fn open(
        options: &Options,
        tls: &TlsSetup,
        application: &str,
        snapshot: Option<&str>,
    ) -> Result<Self, Error> {
        let limit = options.message_bytes_max;
        let mut connection = Connection::open_to_read(&options.server, tls, application, limit).await?;
        connection.command("preparing to read rows in their order", IN_ORDER).await?;
        let begin = "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY";
        connection.command("beginning the snapshot", begin).await?;
        if let Some(name) = snapshot {
            let literal = postgres_protocol::escape::escape_literal(name);
            let set = format!("SET TRANSACTION SNAPSHOT {}", literal.trim_start());
            connection.command("taking the exported snapshot", &set).await?;
        }
        Ok(Self { connection })
    }

    /// Sets `search_path` to `pg_catalog`, for statements with unqualified names.
    pub(crate) async fn use_catalog_names(&mut self) -> Result<(), Error> {
        self.connection.command("preparing the session", CATALOG_NAMES).await.map(drop)
    }

    /// Returns to the role's own `search_path`.
    pub(crate) async fn use_role_names(&mut self) -> Result<(), Error> {
        self.connection.use_role_names().await
    }

    /// Reads the id of the reading transaction. A standby assigns none, and Debezium sends 0 there.
    ///
    /// # Errors
    /// When the query fails.
    pub(crate) async fn transaction(&mut self) -> Result<Xid, Error> {
        const DOING: &str = "asking for the snapshot's transaction";
        let ask = "SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN 0 \
                   ELSE pg_catalog.txid_current() OPERATOR(pg_catalog.%) 4294967296 END";
        let rows = self.connection.command(DOING, ask).await?;
        let text = rows.first().and_then(|row| row.first()).and_then(Option::as_deref);
        let xid = text.and_then(|text| text.parse().ok()).map(Xid);
        xid.ok_or_else(|| Error::Unexpected { message: "answer".to_owned(), doing: DOING })
    }

    /// Reads the oldest transaction that had not ended: what it and later ones have written may not be
    /// visible.
    ///
    /// # Errors
    /// When the query fails.
    pub(crate) async fn xmin(&mut self) -> Result<u32, Error> {
        const DOING: &str = "asking what the snapshot sees";
        let rows = self.connection.command(DOING, XMIN).await?;
        let text = rows.first().and_then(|row| row.first()).and_then(Option::as_deref);
        text.and_then(|text| text.parse().ok())
            .ok_or_else(|| Error::Unexpected { message: "answer".to_owned(), doing: DOING })
    }

    /// Prevents a table from being rewritten until this session ends.
    ///
    /// # Errors
    /// When the query fails.
    pub(crate) async fn hold(&mut self, table: &TableFacts) -> Result<(), Error> {
        let look = format!("SELECT FROM {} LIMIT 0", table.quoted());
        self.connection.command("looking at a table", &look).await.map(drop)
    }

    /// Checks that the snapshot sees the rows of a table that was read.
    ///
    /// # Errors
    /// When it was rewritten before that, or the query fails.
    pub(crate) async fn check(&mut self, table: Oid) -> Result<(), Error> {
        rewritten::check(&mut self.connection, table).await
    }

    /// Exports the snapshot of this session for other sessions.
    ///
    /// # Errors
    /// When the query fails.
    pub(crate) async fn export(&mut self) -> Result<String, Error> {
        const DOING: &str = "exporting the snapshot";
        let rows = self.connection.command(DOING, "SELECT pg_catalog.pg_export_snapshot()").await?;
        let name = rows.into_iter().next().and_then(|row| row.into_iter().next()).flatten();
        name.ok_or_else(|| Error::Unexpected { message: "answer".to_owned(), doing: DOING })
    }

    /// Starts reading a table; [`Self::next`] then returns its columns, its rows and its end.
    ///
    /// # Errors
    /// When the connection breaks.
    pub(crate) async fn select(&mut self, statement: &str) -> Result<(), Error> {
        self.connection.send(|out| frontend::query(statement, out)).await
    }

    /// Returns the next step of the table that is being read.
    ///
    /// # Errors
    /// When the server refuses the statement or the connection breaks.
    pub(crate) async fn next(&mut self) -> Result<SnapshotRow<'_>, Error> {
        const DOING: &str = "reading the snapshot";
        while self.connection.next_tag()?.is_none_or(is_aside) {
            if self.connection.next_tag()?.is_some() {
                self.connection.buffered()?;
            } else {
                self.connection.fill(DOING).await?;
            }
        }
        match self.connection.receive(DOING).await? {
            BackendMessage::RowDescription(names) => {
                Ok(SnapshotRow::Columns(names.into_iter().map(str::to_owned).collect()))
            }
            BackendMessage::DataRow(values) => {
                let column = |value: Option<_>| value.map_or(ColumnValue::Null, ColumnValue::Text);
                Ok(SnapshotRow::Row(values.into_iter().map(column).collect()))
            }
            BackendMessage::ReadyForQuery => Ok(SnapshotRow::End),
            BackendMessage::ErrorResponse(source) => {
                Err(Error::Server { doing: DOING.to_owned(), source: Box::new(source) })
            }
            other => Err(Error::Unexpected { message: Connection::name(&other), doing: DOING }),
        }
    }
}

/// Notices, parameter changes and the count at the end of a command.
const fn is_aside(tag: u8) -> bool {
    matches!(tag, b'N' | b'S' | b'C')
}

impl SnapshotOptions {
    /// Returns the user's statement that reads a table, if there is one.
    pub(crate) fn own_statement(&self, table: &TableFacts) -> Option<&str> {
        let name = format!("{}.{}", table.schema, table.name);
        self.overrides
            .iter()
            .find(|(overridden, _)| *overridden == name)
            .map(|(_, statement)| statement.as_str())
    }

    /// Returns the statement that reads a table.
    #[must_use]
    pub fn statement(&self, table: &TableFacts, columns: &[ColumnDescription]) -> String {
        if let Some(statement) = self.own_statement(table) {
            return statement.to_owned();
        }
        let quote = postgres_protocol::escape::escape_identifier;
        let columns: Vec<_> = columns.iter().map(|column| quote(&column.name)).collect();
        format!("SELECT {} FROM {}", columns.join(", "), table.quoted())
    }
}
