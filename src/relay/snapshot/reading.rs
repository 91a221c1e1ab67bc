//! Connections that read at once, each in a task of its own.

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::plan::Piece;
use crate::postgres::{self, RowBatch, SnapshotReader, SnapshotRow};
use crate::wal::Oid;

/// Most rows of a batch, which ends at a limit of bytes and one row more, too. For each connection one batch
/// is being filled, and one waits for room: nothing else is buffered, and a connection without room does not
/// read.
const BATCH_ROWS: usize = 512;
const BATCH_BYTES: usize = 256 << 10;

/// Report of a connection.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) reader: usize,
    pub(super) piece: Piece,
    pub(super) report: PieceReport,
}

#[derive(Debug)]
pub(super) enum PieceReport {
    /// The piece's rows have these columns.
    Columns(Vec<String>),
    Rows(RowBatch),
    /// The piece is read.
    End,
    Failed(postgres::Error),
}

/// A piece of a table to read.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) piece: Piece,
    pub(super) table: Oid,
    pub(super) statement: String,
}

/// The connections. When it is dropped they are closed.
#[derive(Debug)]
pub(super) struct Readers {
    orders: Vec<mpsc::Sender<Order>>,
    reports: mpsc::Receiver<Report>,
    _tasks: JoinSet<()>,
}

impl Readers {
    /// Starts these readers, which then wait for orders.
    pub(super) fn start(readers: Vec<SnapshotReader>) -> Self {
        let (sender, reports) = mpsc::channel(readers.len().max(1));
        let (mut tasks, mut orders) = (JoinSet::new(), Vec::new());
        for (number, reader) in readers.into_iter().enumerate() {
            let (order, ordered) = mpsc::channel(1);
            orders.push(order);
            tasks.spawn(read_all(number, reader, ordered, sender.clone()));
        }
        Self { orders, reports, _tasks: tasks }
    }

    /// Returns the number of readers.
    pub(super) const fn len(&self) -> usize {
        self.orders.len()
    }

    /// Gives an idle reader an order.
    pub(super) fn order(&self, reader: usize, order: Order) {
        // A reader that has failed has reported it.
        self.orders.get(reader).map(|orders| orders.try_send(order).ok());
    }

    /// Returns the next report of any reader. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Report> {
        self.reports.recv().await
    }
}

async fn read_all(
    number: usize,
    mut reader: SnapshotReader,
    mut ordered: mpsc::Receiver<Order>,
    reports: mpsc::Sender<Report>,
) {
    while let Some(Order { piece, table, statement }) = ordered.recv().await {
        let reporter = Reporter { reader: number, piece, reports: &reports };
        let outcome = match read(&mut reader, &statement, &reporter).await {
            Ok(()) => reader.check(table).await,
            failed => failed,
        };
        let report = match outcome {
            Ok(()) => PieceReport::End,
            Err(error) => PieceReport::Failed(error),
        };
        reporter.send(report).await;
    }
}

struct Reporter<'t> {
    reader: usize,
    piece: Piece,
    reports: &'t mpsc::Sender<Report>,
}

impl Reporter<'_> {
    /// Waits until there is room for it.
    async fn send(&self, report: PieceReport) {
        // The receiver is gone when the snapshot was given up.
        self.reports.send(Report { reader: self.reader, piece: self.piece, report }).await.ok();
    }
}

async fn read(
    reader: &mut SnapshotReader,
    statement: &str,
    reporter: &Reporter<'_>,
) -> Result<(), postgres::Error> {
    reader.select(statement).await?;
    let mut batch = RowBatch::default();
    loop {
        match reader.next().await? {
            SnapshotRow::Columns(names) => reporter.send(PieceReport::Columns(names)).await,
            SnapshotRow::Row(row) => {
                batch.push(&row);
                if batch.len() >= BATCH_ROWS || batch.bytes() >= BATCH_BYTES {
                    reporter.send(PieceReport::Rows(std::mem::take(&mut batch))).await;
                }
            }
            SnapshotRow::End => {
                if batch.len() > 0 {
                    reporter.send(PieceReport::Rows(batch)).await;
                }
                return Ok(());
            }
        }
    }
}
