//! Reads the rows of tables, and makes of each the expected last record of its key.

use super::outbox::OutboxRows;
use super::probe::{Table, reshaped};
use super::render::{Rendered, Renderer, context};
use crate::change::{ChangeEvents, RowChange, Snapshot};
use crate::cli::prove::verify::APPLICATION;
use crate::cli::prove::verify::error::VerifyError;
use crate::cli::prove::verify::rows::{ASKING_WAL_END, TopicList, WAL_END, number, place, text, unreadable};
use crate::cli::prove::verify::scratch::Spill;
use crate::cli::shell::progress::Progress;
use crate::error::chain;
use crate::pgoutput::Tuple;
use crate::postgres::{SnapshotReader, SnapshotRow, Sql, TableFacts, TlsSetup};
use crate::relay::RelayParts;
use crate::verification::{
    Fields, Identity, ReadSnapshot, Row, RowName, Spot, TopicNumber, key_payload, read,
};
use crate::wal::{Lsn, Xid};

/// Query of the transaction's snapshot, the end of the WAL, and the server's clock.
const SNAPSHOT: &str = "SELECT pg_snapshot_xmax(s)::xid::text, \
                       coalesce((SELECT string_agg(x::xid::text, ',') FROM pg_snapshot_xip(s) x), ''), \
                       (extract(epoch FROM now()) * 1000)::bigint::text FROM pg_current_snapshot() s";

/// Error for records without a row. A field of the table's own that looks like a transform's is one cause.
const NO_ROW: &str = "convert one of its rows to a record that contains no row";

/// Reads the rows of all tables as they are at one moment.
pub(super) struct TableReader<'r> {
    parts: &'r RelayParts,
    changes: &'r ChangeEvents,
    progress: &'r Progress,
    pub(super) renderer: Renderer<'r>,
    pub(super) tables: Vec<Table>,
    pub(super) topics: TopicList,
    pub(super) rows: Spill<Row>,
    /// Tables whose rows are routed by an EventRouter.
    pub(super) outbox: OutboxRows,
    pub(super) share: Option<u64>,
    /// Number of rows that the transforms drop.
    pub(super) dropped: u64,
}

impl<'r> TableReader<'r> {
    pub(super) fn new(
        parts: &'r RelayParts,
        changes: &'r ChangeEvents,
        progress: &'r Progress,
        rows: Spill<Row>,
        outbox: OutboxRows,
    ) -> Self {
        let renderer = Renderer::new(&parts.registries);
        let (tables, topics) = (Vec::new(), TopicList::default());
        Self { parts, changes, progress, renderer, tables, topics, rows, outbox, share: None, dropped: 0 }
    }

    /// Returns all tables, also the outboxes.
    pub(super) fn facts(&self) -> impl Iterator<Item = &TableFacts> {
        let tables = self.tables.iter().map(|table| &table.facts);
        tables.chain(self.outbox.tables.iter().map(|table| &table.facts))
    }

    /// Adds a table, and its topic: even one without rows has records.
    pub(super) fn add(&mut self, table: Table) -> Result<(), VerifyError> {
        self.topics.number(&table.topic)?;
        self.tables.push(table);
        Ok(())
    }

    /// Reads all tables.
    pub(super) async fn read(&mut self, sql: &Sql, tls: &TlsSetup) -> Result<ReadSnapshot, VerifyError> {
        let before = wal_end(sql).await?;
        let mut reader = SnapshotReader::open(&self.parts.postgres, tls, APPLICATION, None).await?;
        reader.use_catalog_names().await?;
        let snapshot = snapshot(&mut reader, before).await?;
        // The text of a regclass must be that of the stream.
        reader.use_role_names().await?;
        let tables = std::mem::take(&mut self.tables);
        let after = wal_end(sql).await?;
        for (number, table) in (0..).zip(&tables) {
            reader.select(table.select()).await?;
            loop {
                match reader.next().await? {
                    SnapshotRow::Columns(_) => {}
                    SnapshotRow::Row(row) => self.take(number, table, &row).await?,
                    SnapshotRow::End => break,
                }
            }
        }
        self.tables = tables;
        reader.use_catalog_names().await?;
        self.read_outbox(&mut reader).await?;
        Ok(ReadSnapshot { after, ..snapshot })
    }

    async fn read_outbox(&mut self, reader: &mut SnapshotReader) -> Result<(), VerifyError> {
        let tables = std::mem::take(&mut self.outbox.tables);
        for (number, table) in (0..).zip(&tables) {
            reader.select(&table.select).await?;
            loop {
                match reader.next().await? {
                    SnapshotRow::Columns(_) => {}
                    SnapshotRow::Row(row) => {
                        self.progress.step();
                        let taken = self.outbox.take(number, table, &row, &mut self.renderer, self.changes);
                        taken.await?;
                    }
                    SnapshotRow::End => break,
                }
            }
        }
        self.outbox.tables = tables;
        Ok(())
    }

    async fn take(&mut self, number: u32, table: &Table, row: &Tuple<'_>) -> Result<(), VerifyError> {
        self.progress.step();
        let change = RowChange::Insert(row.columns());
        let made = self.renderer.render(&table.bound, change, &context(1, Snapshot::False)).await?;
        let name = row_name(number, table.columns, row);
        let row = match made {
            Ok(records) => match records.last() {
                Some(record) => self.row(table, record, name)?,
                None => {
                    self.dropped = self.dropped.saturating_add(1);
                    return Ok(());
                }
            },
            Err(error) => refused(name, chain(&error)),
        };
        if self.share.is_none_or(|share| row.identity.is_in_share(share)) {
            self.rows.add(&row)?;
        }
        Ok(())
    }

    fn row(&mut self, table: &Table, record: &Rendered, mut name: RowName) -> Result<Row, VerifyError> {
        let topic = self.topics.number(&record.topic)?;
        let fields = record.value.as_deref().and_then(read);
        let fields = fields.and_then(|read| read.digests(|name| table.volatile.contains(&name)));
        // Without fields it would be like any record.
        let Some(fields) = fields else { return Err(reshaped(self.changes, &table.bound, NO_ROW)) };
        let key = record.key_text.as_deref().map(key_payload);
        name.id = key.and_then(|key| std::str::from_utf8(key).ok()).map(str::to_owned);
        let identity = identity(topic, key, &fields);
        let (keyed, spot) = (key.is_some(), record.spot());
        Ok(Row { identity, topic, keyed, spot, fields, refusal: None, row: name })
    }
}

/// Returns the identity by which a row and its records find each other.
pub(super) fn identity(topic: TopicNumber, key: Option<&[u8]>, fields: &Fields) -> Identity {
    match key {
        Some(key) => Identity::of_key(topic.0, key),
        None => Identity::of_fields(topic.0, fields),
    }
}

fn refused(row: RowName, reason: String) -> Row {
    let place = (row.table, row.lies_in, row.place);
    Row {
        identity: Identity::of_fields(u32::MAX, place),
        topic: TopicNumber(u32::MAX),
        keyed: false,
        spot: Spot::Any,
        fields: Fields::default(),
        refusal: Some(reason),
        row,
    }
}

/// Reads the name of a row, whose `tableoid` and `ctid` follow the table's own columns.
pub(super) fn row_name(table: u32, columns: usize, row: &Tuple<'_>) -> RowName {
    let mut added = row.columns().iter().skip(columns).map(text);
    let mut next = || added.next().flatten();
    let lies_in = number(next()).unwrap_or_default();
    RowName { table, lies_in, place: next().and_then(place).unwrap_or_default(), id: None }
}

async fn wal_end(sql: &Sql) -> Result<Lsn, VerifyError> {
    let rows = sql.query(ASKING_WAL_END, &format!("SELECT ({WAL_END})::text"), &[]).await?;
    let text = rows.first().and_then(|row| row.try_get::<_, String>(0).ok());
    text.and_then(|text| text.parse().ok()).ok_or_else(|| unreadable(ASKING_WAL_END))
}

async fn snapshot(reader: &mut SnapshotReader, before: Lsn) -> Result<ReadSnapshot, VerifyError> {
    reader.select(SNAPSHOT).await?;
    let mut snapshot = None;
    loop {
        match reader.next().await? {
            SnapshotRow::Columns(_) => {}
            SnapshotRow::Row(row) => {
                let mut columns = row.columns().iter().map(text);
                let mut next = || columns.next().flatten();
                let (next_xid, open, at) = (number(next()), next(), number(next()));
                let open = open.map(|open| open.split(',').filter(|xid| !xid.is_empty()).map(str::parse));
                let open = open.and_then(|open| open.map(|xid| xid.map(Xid).ok()).collect::<Option<_>>());
                snapshot = next_xid.zip(open).zip(at).map(|((next_xid, open), at_ms)| ReadSnapshot {
                    next: Xid(next_xid),
                    open,
                    before,
                    after: Lsn::ZERO,
                    at_ms,
                });
            }
            SnapshotRow::End => {
                return snapshot.ok_or_else(|| unreadable("asking what the transaction sees"));
            }
        }
    }
}
