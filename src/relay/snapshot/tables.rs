//! The snapshot of tables whose changes are sent: by several connections at once.

use tokio::time::sleep_until;

use super::plan::{Ended, Piece, Plan};
use super::reading::{Readers, Said, Told as Heard};
use super::{LOOK_INTERVAL, NextRow, Site, Snapshot, full_name};
use crate::connect::column::ColumnDescription;
use crate::postgres::{self, PageRange, RowBatch, SnapshotReader, TableFacts};
use crate::relay::asking::{answered, ask};
use crate::relay::clock::Now;
use crate::relay::core::{Event, Then, Wanted};
use crate::relay::error::Error;
use crate::signal::Told;
use crate::wal::{Oid, Xid};

/// A table whose rows are read.
struct Described<'t> {
    facts: &'t TableFacts,
    name: String,
    /// Known once its first piece is read.
    columns: Option<Vec<ColumnDescription>>,
    /// Its rows can be sent.
    is_bound: bool,
}

impl Snapshot<'_> {
    /// Opens the connections, which all see the same, and tells the transaction of the first one.
    pub(super) async fn open_readers(&self, site: &Site<'_>) -> Result<(Vec<SnapshotReader>, Xid), Error> {
        let options = &self.parts.postgres;
        let mut first = SnapshotReader::open(options, site.tls, site.application, site.exported).await?;
        let xid = first.transaction().await?;
        let wanted = options.snapshot.connections;
        let seen = match (site.exported, wanted) {
            (Some(exported), _) => exported.to_owned(),
            (None, 1) => String::new(),
            (None, _) => first.export().await?,
        };
        let mut readers = vec![first];
        for _ in 1..wanted {
            readers.push(SnapshotReader::open(options, site.tls, site.application, Some(&seen)).await?);
        }
        Ok((readers, xid))
    }

    /// Reads all tables, and sends their rows.
    pub(super) async fn send_tables(
        &mut self,
        tables: &[&TableFacts],
        readers: Vec<SnapshotReader>,
    ) -> Result<(), Error> {
        let names = tables.iter().map(|table| full_name(table)).collect::<Vec<_>>().join(",");
        let pages = self.resolver.sql.pages(tables).await?;
        let plan =
            Plan::new(tables.iter().zip(pages).map(|(table, pages)| (pages, self.pieces(table, pages))));
        let described = tables.iter().copied().map(Described::new).collect();
        let readers = Readers::start(readers);
        let mut work = Work { tables: described, names, plan, readers };
        for reader in 0..work.readers.len() {
            self.order(&mut work, reader).await?;
        }
        while work.plan.is_running() {
            let Heard { reader, piece, said } = self.hear(&mut work.readers).await?;
            match said {
                Said::Columns(names) => self.bind_once(&mut work, piece, &names)?,
                Said::Rows(batch) => self.send_batch(&mut work, piece, &batch).await?,
                Said::End => {
                    self.end_piece(&mut work, piece).await?;
                    self.order(&mut work, reader).await?;
                }
                Said::Failed(error) => return Err(error.into()),
            }
            self.tell_tables(work.plan.tally());
        }
        Ok(())
    }

    /// A table whose rows the user selects is read at once.
    fn pieces(&self, table: &TableFacts, pages: u32) -> Vec<PageRange> {
        let options = &self.parts.postgres.snapshot;
        match options.own_statement(table) {
            Some(_) => vec![PageRange::ALL],
            None => PageRange::divide(pages, options.connections),
        }
    }

    /// Gives a connection that has nothing to do the next piece.
    async fn order(&mut self, work: &mut Work<'_>, reader: usize) -> Result<(), Error> {
        let Some(piece) = work.plan.next() else { return Ok(()) };
        let Some(table) = work.tables.get_mut(piece.table) else { return Ok(()) };
        if table.columns.is_none() {
            let data = vec![
                ("current_collection_in_progress", table.name.clone()),
                ("data_collections", work.names.clone()),
            ];
            self.notify(Told::InProgress, data);
            table.columns = Some(self.resolver.sql.describe(table.facts.oid).await?);
        }
        let columns = table.columns.as_deref().unwrap_or_default();
        let whole = self.parts.postgres.snapshot.statement(table.facts, columns);
        work.readers.order(reader, piece, format!("{whole}{}", piece.range.condition()));
        Ok(())
    }

    /// What a connection says next. Kafka is heard meanwhile.
    async fn hear(&mut self, readers: &mut Readers) -> Result<Heard, Error> {
        loop {
            let event = tokio::select! {
                biased;
                answer = answered(&mut self.answer), if self.answer.is_some() => {
                    self.answer = None;
                    Event::Answer(answer)
                }
                heard = readers.next() => {
                    let source = std::io::ErrorKind::BrokenPipe.into();
                    let gone = postgres::Error::Broken { doing: "reading the snapshot", source };
                    return heard.ok_or_else(|| gone.into());
                }
                () = self.parts.producer.deliveries().arrived() => Event::None,
                () = sleep_until((Now::read().instant + LOOK_INTERVAL).into()) => Event::None,
            };
            self.turn_aside(event)?;
        }
    }

    /// A turn without a row.
    pub(super) fn turn_aside(&mut self, event: Event) -> Result<Then, Error> {
        let now = Now::read();
        let mut nothing = NextRow { at: self.at, table: Oid(0), row: None };
        let turn = self.core.turn(now, event, Wanted::Stream, &mut nothing)?;
        self.tell(&turn, now);
        if let Some(need) = turn.need {
            self.answer = Some(ask(&self.resolver, need));
        }
        Ok(turn.then)
    }

    /// The pieces of a table have the same columns.
    fn bind_once(&mut self, work: &mut Work<'_>, piece: Piece, names: &[String]) -> Result<(), Error> {
        let Some(table) = work.tables.get_mut(piece.table).filter(|table| !table.is_bound) else {
            return Ok(());
        };
        table.is_bound = true;
        self.bind(table.facts, table.columns.as_deref().unwrap_or_default(), names)
    }

    async fn send_batch(&mut self, work: &mut Work<'_>, piece: Piece, batch: &RowBatch) -> Result<(), Error> {
        let Some(oid) = work.tables.get(piece.table).map(|table| table.facts.oid) else { return Ok(()) };
        if let Some(before) = work.plan.keep_back(piece.table, batch) {
            self.core.feed.snapshot = work.plan.mark(piece.table);
            self.send_first_of(&before, oid).await?;
        }
        for row in (1..batch.len()).filter_map(|index| batch.row(index.saturating_sub(1))) {
            self.core.feed.snapshot = work.plan.mark(piece.table);
            self.send_counted(oid, &row).await?;
        }
        Ok(())
    }

    async fn send_first_of(&mut self, batch: &RowBatch, table: Oid) -> Result<(), Error> {
        match batch.row(0) {
            Some(row) => self.send_counted(table, &row).await,
            None => Ok(()),
        }
    }

    async fn end_piece(&mut self, work: &mut Work<'_>, piece: Piece) -> Result<(), Error> {
        let Ended::Table { last, rows } = work.plan.end(piece) else { return Ok(()) };
        let Some(table) = work.tables.get(piece.table) else { return Ok(()) };
        if let Some((row, marker)) = last {
            self.core.feed.snapshot = marker;
            self.send_first_of(&row, table.facts.oid).await?;
        }
        let mut data =
            vec![("data_collections", work.names.clone()), ("scanned_collection", table.name.clone())];
        data.extend([("status", "SUCCEEDED".to_owned()), ("total_rows_scanned", rows.to_string())]);
        self.notify(Told::TableScanCompleted, data);
        Ok(())
    }
}

impl<'t> Described<'t> {
    fn new(facts: &'t TableFacts) -> Self {
        Self { facts, name: full_name(facts), columns: None, is_bound: false }
    }
}

/// What is read, and by whom.
struct Work<'t> {
    tables: Vec<Described<'t>>,
    /// Of all tables.
    names: String,
    plan: Plan,
    readers: Readers,
}
