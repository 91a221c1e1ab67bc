//! The snapshot of tables whose changes are sent: by several connections at once.

use std::cmp::Reverse;

use tokio::time::sleep_until;

use super::keeper::SnapshotProgressStore;
use super::plan::{Ended, LastRow, Piece, Pieces, Plan};
use super::reading::{Order, PieceReport, Readers, Report};
use super::{LOOK_INTERVAL, NextRow, Site, Snapshot, full_name};
use crate::connect::column::ColumnDescription;
use crate::connect::java::hash_map::{Made, in_order};
use crate::postgres::{self, PageRange, RowBatch, SnapshotReader, TableFacts, TableOrder};
use crate::relay::error::Error;
use crate::relay::pipeline::core::{Event, Then, Wanted};
use crate::relay::progress::position::{SentPart, SentTable};
use crate::relay::snapshot::asking::{answered, ask};
use crate::relay::time::clock::Now;
use crate::signal::SnapshotStatus;
use crate::wal::{Oid, Xid};

/// A table whose rows are read.
struct Described<'t> {
    facts: &'t TableFacts,
    name: String,
    /// Known once its first piece is read.
    columns: Option<Vec<ColumnDescription>>,
    /// True if its rows can be sent.
    is_bound: bool,
    /// The file in which its ranges stand; one that is not divided has none.
    file: Option<u32>,
    /// Oldest transaction whose rows may be invisible here.
    xmin: Option<u32>,
}

impl Snapshot<'_> {
    /// Opens the connections, which all see the same, and returns the transaction of the first one.
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

    /// Puts the tables in the order of `snapshot.tables.order.by.row.count`. Those with the same estimate stay in the order in which
    /// they were. With one connection Debezium counts no rows, and leaves all as they were.
    pub(super) async fn arrange(&self, tables: &mut Vec<&TableFacts>) -> Result<(), Error> {
        let snapshot = &self.parts.postgres.snapshot;
        let order = snapshot.order;
        if order == TableOrder::AsListed || snapshot.connections == 1 {
            return Ok(());
        }
        let estimates = self.resolver.sql.estimates(tables).await?;
        let mut counted: Vec<_> = estimates.into_iter().zip(tables.drain(..)).collect();
        match order {
            TableOrder::MostRowsFirst => counted.sort_by_key(|(rows, _)| Reverse(*rows)),
            TableOrder::FewestRowsFirst | TableOrder::AsListed => counted.sort_by_key(|(rows, _)| *rows),
        }
        tables.extend(counted.into_iter().map(|(_, table)| table));
        Ok(())
    }

    /// Reads all tables, and sends their rows.
    pub(super) async fn send_tables(
        &mut self,
        tables: &[&TableFacts],
        captured: String,
        readers: Vec<SnapshotReader>,
        mut keeper: Option<&mut SnapshotProgressStore<'_>>,
    ) -> Result<(), Error> {
        let before = keeper.as_ref().map(|keeper| keeper.before.clone()).unwrap_or_default();
        let mut work = self.divide(tables, readers, before, keeper.is_some()).await?;
        for reader in 0..work.readers.len() {
            self.order(&mut work, reader).await?;
        }
        while work.plan.is_running() {
            let Report { reader, piece, report } = self.next_report(&mut work.readers).await?;
            match report {
                PieceReport::Columns(names) => self.bind_once(&mut work, piece, &names)?,
                PieceReport::Rows(batch) => self.send_batch(&mut work, piece, &batch).await?,
                PieceReport::End => {
                    self.end_piece(&mut work, piece, &captured).await?;
                    self.order(&mut work, reader).await?;
                    if let Some(keeper) = keeper.as_mut().filter(|keeper| keeper.is_due()) {
                        self.drain().await?;
                        keeper.keep(work.sent()).await;
                    }
                }
                PieceReport::Failed(error) => return Err(error.into()),
            }
            self.report_tables(work.plan.tally());
        }
        Ok(())
    }

    /// Divides the tables into pieces, without what was sent before.
    async fn divide<'t>(
        &self,
        tables: &[&'t TableFacts],
        mut readers: Vec<SnapshotReader>,
        before: Vec<SentTable>,
        keeps: bool,
    ) -> Result<Work<'t>, Error> {
        let names = tables.iter().map(|table| full_name(table)).collect();
        let names = in_order(names, Made::Set, String::as_str).join(",");
        let sent_of = |table: &TableFacts| before.iter().find(|sent| sent.oid() == table.oid);
        let is_whole = |table: &TableFacts| sent_of(table).is_some_and(|sent| sent.as_part().is_none());
        let tables: Vec<_> = tables.iter().copied().filter(|table| !is_whole(table)).collect();
        let mut xmin = None;
        if let Some(reader) = readers.first_mut().filter(|_| keeps) {
            xmin = Some(reader.xmin().await?);
            for table in tables.iter().filter(|table| sent_of(table).is_some()) {
                reader.hold(table).await?;
            }
        }
        let sizes = self.resolver.sql.sizes(&tables).await?;
        let (mut described, mut pieces) = (Vec::new(), Vec::new());
        for (facts, size) in tables.into_iter().zip(sizes) {
            let is_own = self.parts.postgres.snapshot.own_statement(facts).is_some();
            let file = size.file.filter(|_| !is_own);
            let part = sent_of(facts).and_then(SentTable::as_part).filter(|part| Some(part.file) == file);
            pieces.push(self.pieces(size.pages, is_own, part));
            let xmin = part.map(|part| part.xmin).or(xmin);
            described.push(Described { file, xmin, ..Described::new(facts) });
        }
        let whole = before.into_iter().filter(|sent| sent.as_part().is_none()).collect();
        let (plan, readers) = (Plan::new(pieces), Readers::start(readers));
        Ok(Work { tables: described, names, plan, readers, whole })
    }

    /// Returns the pieces of a table. One whose rows the user selects is read at once. Of the sent pages,
    /// rows that were written since are read again: a row may have moved there from a page that was not read
    /// yet.
    fn pieces(&self, pages: u32, is_own: bool, part: Option<&SentPart>) -> Pieces {
        let connections = self.parts.postgres.snapshot.connections;
        let sent = part.map(|part| part.pages.clone()).unwrap_or_default();
        let again =
            part.into_iter().flat_map(|part| part.pages.iter().map(|range| (*range, Some(part.xmin))));
        let lacking = match part {
            Some(part) => part.lacks(),
            None => vec![PageRange::ALL],
        };
        let divided = lacking.into_iter().flat_map(|range| match is_own {
            true => vec![range],
            false => range.divide(pages, connections),
        });
        let ranges = divided.map(|range| (range, None)).chain(again).collect();
        Pieces { pages, ranges, sent }
    }

    /// Waits until Kafka has all that was handed over; with exactly once, until it is committed.
    pub(super) async fn drain(&mut self) -> Result<(), Error> {
        self.core.is_awaited = true;
        let drained = self.drained().await;
        self.core.is_awaited = false;
        drained
    }

    async fn drained(&mut self) -> Result<(), Error> {
        let mut event = Event::None;
        loop {
            let then = self.turn_aside(std::mem::take(&mut event))?;
            // A record that was refused has ended the turn with an error.
            if self.core.feed.out.flight.window().records() == 0 && !self.core.is_waiting() {
                return Ok(());
            }
            event = self.wait(then).await;
        }
    }

    /// Assigns the next piece to an idle connection.
    async fn order(&mut self, work: &mut Work<'_>, reader: usize) -> Result<(), Error> {
        let Some(piece) = work.plan.next() else { return Ok(()) };
        let Some(table) = work.tables.get_mut(piece.table) else { return Ok(()) };
        if table.columns.is_none() {
            let data = vec![
                ("current_collection_in_progress", table.name.clone()),
                ("data_collections", work.names.clone()),
            ];
            self.notify(SnapshotStatus::InProgress, data);
            table.columns = Some(self.resolver.sql.describe(table.facts.oid).await?);
        }
        let columns = table.columns.as_deref().unwrap_or_default();
        let whole = self.parts.postgres.snapshot.statement(table.facts, columns);
        let statement = format!("{whole}{}", piece.range.condition(piece.since));
        work.readers.order(reader, Order { piece, table: table.facts.oid, statement });
        Ok(())
    }

    /// Returns the next report of a connection. Delivery reports of Kafka are handled meanwhile.
    async fn next_report(&mut self, readers: &mut Readers) -> Result<Report, Error> {
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

    /// Runs a turn without a row.
    pub(super) fn turn_aside(&mut self, event: Event) -> Result<Then, Error> {
        let now = Now::read();
        let mut nothing = NextRow { at: self.at, table: Oid(0), row: None };
        let turn = self.core.turn(now, event, Wanted::Stream, &mut nothing)?;
        self.report(&turn, now);
        if let Some(need) = turn.need {
            self.answer = Some(ask(&self.resolver, need));
        }
        Ok(turn.then)
    }

    /// Binds a table once, as its pieces have the same columns.
    fn bind_once(&mut self, work: &mut Work<'_>, piece: Piece, names: &[String]) -> Result<(), Error> {
        let Some(table) = work.tables.get_mut(piece.table).filter(|table| !table.is_bound) else {
            return Ok(());
        };
        table.is_bound = true;
        self.bind(table.facts, table.columns.as_deref().unwrap_or_default(), names)
    }

    async fn send_batch(&mut self, work: &mut Work<'_>, piece: Piece, batch: &RowBatch) -> Result<(), Error> {
        let Some(oid) = work.tables.get(piece.table).map(|table| table.facts.oid) else { return Ok(()) };
        if batch.len() > 0 {
            let last = work.plan.take_last();
            self.send_last(work, last).await?;
        }
        if let Some(before) = work.plan.keep_back(piece, batch) {
            self.core.feed.place.snapshot = work.plan.mark(piece.table);
            self.send_first_of(&before, oid).await?;
        }
        for row in (1..batch.len()).filter_map(|index| batch.row(index.saturating_sub(1))) {
            self.core.feed.place.snapshot = work.plan.mark(piece.table);
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

    /// Sends the last row of a table, if there is one.
    async fn send_last(&mut self, work: &Work<'_>, last: Option<LastRow>) -> Result<(), Error> {
        let Some(LastRow { table, row, marker }) = last else { return Ok(()) };
        let Some(table) = work.tables.get(table) else { return Ok(()) };
        self.core.feed.place.snapshot = marker;
        self.send_first_of(&row, table.facts.oid).await
    }

    async fn end_piece(&mut self, work: &mut Work<'_>, piece: Piece, captured: &str) -> Result<(), Error> {
        if work.plan.has_rows(piece.table) {
            let last = work.plan.take_last();
            self.send_last(work, last).await?;
        }
        let Ended::Table { rows } = work.plan.end(piece) else { return Ok(()) };
        let last = work.plan.take_very_last();
        self.send_last(work, last).await?;
        let Some(table) = work.tables.get(piece.table) else { return Ok(()) };
        let mut data =
            vec![("data_collections", captured.to_owned()), ("scanned_collection", table.name.clone())];
        data.extend([("status", "SUCCEEDED".to_owned()), ("total_rows_scanned", rows.to_string())]);
        self.notify(SnapshotStatus::TableScanCompleted, data);
        Ok(())
    }
}

impl<'t> Described<'t> {
    fn new(facts: &'t TableFacts) -> Self {
        Self { facts, name: full_name(facts), columns: None, is_bound: false, file: None, xmin: None }
    }
}

/// Tables to read, and their plan.
struct Work<'t> {
    tables: Vec<Described<'t>>,
    /// Names of all tables, in the order of a Java set.
    names: String,
    plan: Plan,
    readers: Readers,
    /// Tables that were sent to their end before.
    whole: Vec<SentTable>,
}

impl Work<'_> {
    /// Returns what was sent, provided that Kafka has all that was handed over.
    fn sent(&self) -> Vec<SentTable> {
        let now = self.tables.iter().enumerate().filter_map(|(index, table)| match self.plan.sent(index) {
            None => Some(SentTable::whole(table.facts.oid)),
            Some(pages) if pages.is_empty() => None,
            Some(pages) => {
                let (file, xmin) = (table.file?, table.xmin?);
                Some(SentTable::part(table.facts.oid, SentPart { file, xmin, pages }))
            }
        });
        self.whole.iter().cloned().chain(now).collect()
    }
}
