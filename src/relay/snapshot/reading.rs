//! Connections that read at once, each in a task of its own.

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::plan::Piece;
use crate::postgres::{self, RowBatch, SnapshotReader, SnapshotRow};

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
    pub(super) said: Said,
}

#[derive(Debug)]
pub(super) enum Said {
    /// The piece's rows have these columns.
    Columns(Vec<String>),
    Rows(RowBatch),
    /// The piece is read.
    End,
    Failed(postgres::Error),
}

/// The connections. When it is dropped they are closed.
#[derive(Debug)]
pub(super) struct Readers {
    orders: Vec<mpsc::Sender<(Piece, String)>>,
    reports: mpsc::Receiver<Report>,
    _tasks: JoinSet<()>,
}

impl Readers {
    /// Starts these readers, which then wait for orders.
    pub(super) fn start(readers: Vec<SnapshotReader>) -> Self {
        let (tell, reports) = mpsc::channel(readers.len().max(1));
        let (mut tasks, mut orders) = (JoinSet::new(), Vec::new());
        for (number, reader) in readers.into_iter().enumerate() {
            let (order, ordered) = mpsc::channel(1);
            orders.push(order);
            tasks.spawn(read_all(number, reader, ordered, tell.clone()));
        }
        Self { orders, reports, _tasks: tasks }
    }

    /// Returns the number of readers.
    pub(super) const fn len(&self) -> usize {
        self.orders.len()
    }

    /// Orders an idle reader to read a piece with this statement.
    pub(super) fn order(&self, reader: usize, piece: Piece, statement: String) {
        // A reader that has failed has reported it.
        self.orders.get(reader).map(|orders| orders.try_send((piece, statement)).ok());
    }

    /// Returns the next report of any reader. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Report> {
        self.reports.recv().await
    }
}

async fn read_all(
    number: usize,
    mut reader: SnapshotReader,
    mut ordered: mpsc::Receiver<(Piece, String)>,
    tell: mpsc::Sender<Report>,
) {
    while let Some((piece, statement)) = ordered.recv().await {
        let teller = Teller { reader: number, piece, tell: &tell };
        let said = match read(&mut reader, &statement, &teller).await {
            Ok(()) => Said::End,
            Err(error) => Said::Failed(error),
        };
        teller.say(said).await;
    }
}

struct Teller<'t> {
    reader: usize,
    piece: Piece,
    tell: &'t mpsc::Sender<Report>,
}

impl Teller<'_> {
    /// Waits until there is room for it.
    async fn say(&self, said: Said) {
        // The receiver is gone when the snapshot was given up.
        self.tell.send(Report { reader: self.reader, piece: self.piece, said }).await.ok();
    }
}

async fn read(
    reader: &mut SnapshotReader,
    statement: &str,
    teller: &Teller<'_>,
) -> Result<(), postgres::Error> {
    reader.select(statement).await?;
    let mut batch = RowBatch::default();
    loop {
        match reader.next().await? {
            SnapshotRow::Columns(names) => teller.say(Said::Columns(names)).await,
            SnapshotRow::Row(row) => {
                batch.push(&row);
                if batch.len() >= BATCH_ROWS || batch.bytes() >= BATCH_BYTES {
                    teller.say(Said::Rows(std::mem::take(&mut batch))).await;
                }
            }
            SnapshotRow::End => {
                if batch.len() > 0 {
                    teller.say(Said::Rows(batch)).await;
                }
                return Ok(());
            }
        }
    }
}
