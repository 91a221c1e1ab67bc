//! Reads tables while the stream waits.

use std::sync::Arc;

use super::ChunkReader;
use crate::error::{Class, Diagnose as _, chain};
use crate::postgres::{self, ChunkConnection};
use crate::relay::capture::hypertables;
use crate::relay::capture::preflight::application;
use crate::relay::capture::resolution::{read_whole, relation_of};
use crate::relay::capture::route::Bound;
use crate::relay::capture::selected;
use crate::relay::capture::selected::Selected;
use crate::relay::pipeline::signals::{Done, ReadTable};
use crate::signal::{ScanAsk, ScanTable, Scanned};

/// Rows that are read at a time.
const ROWS: usize = 1024;

/// The connection of a blocking snapshot, with its transaction.
#[derive(Debug)]
pub(super) struct Scanner {
    connection: ChunkConnection,
    table: Option<ReadTable>,
    /// Mapping of columns, unless the table's rows are read as they are sent.
    selected: Option<Selected>,
    visible: Option<crate::signal::PgSnapshot>,
}

impl ChunkReader<'_> {
    pub(super) async fn scan(&mut self, ask: ScanAsk) -> Result<Done, postgres::Error> {
        let read = match ask {
            ScanAsk::Begin(table) => {
                self.wait().await;
                self.begin_table(&table).await
            }
            ScanAsk::More => self.more().await,
            ScanAsk::End => {
                (self.scanner, self.has_waited) = (None, false);
                let scanned = Scanned::Rows { rows: Vec::new(), more: false, visible: None };
                return Ok(Done::Scan { scanned, table: None });
            }
        };
        match read {
            Err(error @ postgres::Error::Server { .. }) if error.class() != Class::Transient => {
                // The server has ended the transaction.
                self.scanner = None;
                tracing::error!(error = chain(&error), "blocking snapshot: cannot read a table");
                Ok(Done::Scan { scanned: Scanned::Failed, table: None })
            }
            read => read,
        }
    }

    /// Waits before the first table of a snapshot, as before one at a start. The stream and Kafka continue
    /// meanwhile.
    async fn wait(&mut self) {
        let delay = self.parts.postgres.snapshot.delay;
        if self.has_waited || delay.is_zero() {
            return;
        }
        self.has_waited = true;
        tracing::info!(seconds = delay.as_secs_f64(), "waiting for snapshot.delay.ms");
        tokio::time::sleep(delay).await;
    }

    async fn begin_table(&mut self, table: &ScanTable) -> Result<Done, postgres::Error> {
        let all = self.sql.tables().await?;
        let named = |facts: &&postgres::TableFacts| format!("{}.{}", facts.schema, facts.name) == table.table;
        let facts = all.iter().find(named);
        let facts = facts.filter(|facts| self.parts.tables.matches(&facts.schema, &facts.name));
        let Some(facts) = facts else {
            tracing::warn!(
                table = table.table,
                "blocking snapshot: the table does not exist or is not captured"
            );
            return Ok(Done::Scan { scanned: Scanned::Failed, table: None });
        };
        let columns = self.sql.describe(facts.oid).await?;
        let statement = match &table.statement {
            Some(statement) => {
                // What is more than one statement is refused here. A cursor has no columns, whose types the client would look up.
                let cursor = format!("DECLARE outboxd_check CURSOR FOR {statement}");
                self.checker().await?.check("checking the statement of a signal", &cursor).await?;
                statement.clone()
            }
            None => self.parts.postgres.snapshot.statement(facts, &columns),
        };
        let names = self.scanner().await?.connection.declare(&statement).await?;
        let shown: Vec<_> = columns.iter().map(read_whole).collect();
        hypertables::learn_chunk(&self.sql, &self.parts.route, &facts.schema, &facts.name).await?;
        let bound = match self.parts.route.bind(&relation_of(facts, &shown), &shown) {
            Ok(Bound::Changes(bound)) => bound,
            Ok(Bound::Outbox(_)) => {
                tracing::error!(
                    table = table.table,
                    "blocking snapshot: the EventRouter routes this table; its rows are not change events"
                );
                return Ok(Done::Scan { scanned: Scanned::Failed, table: None });
            }
            Err(error) => {
                let error = chain(&error);
                tracing::error!(table = table.table, error, "blocking snapshot: cannot read a table");
                return Ok(Done::Scan { scanned: Scanned::Failed, table: None });
            }
        };
        let read_table = ReadTable { oid: facts.oid, bound: Arc::new(*bound) };
        selected::report_others(facts, &columns, &names);
        let scanner = self.scanner().await?;
        (scanner.table, scanner.selected) = (Some(read_table), Selected::new(&shown, &names));
        self.more().await
    }

    async fn more(&mut self) -> Result<Done, postgres::Error> {
        let scanner = self.scanner().await?;
        let mut rows = scanner.connection.fetch(ROWS).await?;
        if let Some(selected) = &scanner.selected {
            rows = rows.iter().map(|row| selected.values(row)).collect();
        }
        let scanned = Scanned::Rows { more: rows.len() >= ROWS, rows, visible: scanner.visible.clone() };
        let table = scanner.table.clone();
        if let (Scanned::Rows { more: false, .. }, Some(table)) = (&scanned, &table) {
            scanner.connection.close_cursor(table.oid).await?;
        }
        Ok(Done::Scan { scanned, table })
    }

    async fn scanner(&mut self) -> Result<&mut Scanner, postgres::Error> {
        let scanner = match self.scanner.take() {
            Some(scanner) => scanner,
            None => {
                let options = &self.parts.postgres;
                let mut connection = ChunkConnection::open(options, self.tls, &application(options)).await?;
                let visible = connection.begin().await?;
                Scanner { connection, table: None, selected: None, visible: Some(visible) }
            }
        };
        Ok(self.scanner.insert(scanner))
    }
}
