//! Buffer of a snapshot's unacknowledged rows, which does for it what the slot does for a stream: rows of an
//! outbox are stored until they are acknowledged, and sent again when Kafka has refused one. Without it the
//! snapshot would have to restart.

use std::collections::VecDeque;

use tokio::task::spawn_blocking;

use super::{Snapshot, new_core};
use crate::ack::Ticket;
use crate::kafka;
use crate::pgoutput::Tuple;
use crate::postgres::RowBatch;
use crate::relay::error::Error;
use crate::wal::Oid;

/// Number of rows that are acknowledged together. Up to this number more than were in flight are sent again.
const PARCEL_ROWS: usize = 50;

/// Most bytes of stored rows: with more, all of them are waited for. They can be more than what is in flight
/// when one partition accepts nothing and others do.
const KEPT_BYTES_MAX: usize = 128 << 20;

/// Rows in the order in which they were read.
#[derive(Debug, Default)]
pub(super) struct Unacknowledged {
    parcels: VecDeque<Parcel>,
    /// Number of rows that were added.
    rows: u64,
    bytes: usize,
}

/// Rows of one table.
#[derive(Debug)]
struct Parcel {
    table: Oid,
    /// Number of rows that were added before its first.
    before: u64,
    rows: RowBatch,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Rows are added.
    Open,
    /// All of its records are in flight, or acknowledged.
    Sent(Option<Ticket>),
}

impl Unacknowledged {
    fn push(&mut self, table: Oid, row: &Tuple<'_>) {
        let before = self.rows;
        if self.parcels.back().is_none_or(|last| last.table != table || last.state != State::Open) {
            self.parcels.push_back(Parcel { table, before, rows: RowBatch::default(), state: State::Open });
        }
        let Some(parcel) = self.parcels.back_mut() else { return };
        let bytes = parcel.rows.bytes();
        parcel.rows.push(row);
        self.bytes = self.bytes.saturating_add(parcel.rows.bytes().saturating_sub(bytes));
        self.rows = self.rows.saturating_add(1);
    }

    /// Returns the number of rows of the parcel that is added to.
    fn open_rows(&self) -> usize {
        self.parcels.back().filter(|last| last.state == State::Open).map_or(0, |last| last.rows.len())
    }

    /// Closes the last parcel, whose records are in flight.
    fn close(&mut self, ticket: Option<Ticket>) {
        if let Some(last) = self.parcels.back_mut() {
            last.state = State::Sent(ticket);
        }
    }

    /// Forgets the parcels with tickets before `settled`, which are acknowledged.
    fn forget(&mut self, settled: Ticket) {
        while let Some(first) = self.parcels.pop_front_if(|first| first.state.is_settled(settled)) {
            self.bytes = self.bytes.saturating_sub(first.rows.bytes());
        }
    }

    /// Forgets all parcels.
    fn clear(&mut self) {
        self.parcels.clear();
        self.bytes = 0;
    }

    /// Returns the number of rows that are acknowledged before all stored ones.
    fn acknowledged(&self) -> u64 {
        self.parcels.front().map_or(self.rows, |first| first.before)
    }
}

impl State {
    fn is_settled(self, settled: Ticket) -> bool {
        match self {
            Self::Open => false,
            Self::Sent(ticket) => ticket.is_none_or(|ticket| ticket < settled),
        }
    }
}

impl Snapshot<'_> {
    /// Hands a row of an outbox over, and keeps it if the snapshot is to go on when Kafka refuses one.
    pub(super) async fn send_kept(&mut self, table: Oid, row: &Tuple<'_>) -> Result<(), Error> {
        if let Some(kept) = &mut self.kept {
            kept.push(table, row);
        }
        let sent = self.send_counted(table, row).await;
        self.resume(sent).await?;
        if self.kept.as_ref().is_some_and(|kept| kept.open_rows() >= PARCEL_ROWS) {
            self.end_parcel().await?;
        }
        Ok(())
    }

    /// Ends the parcel that is added to: it is full, or its table is read.
    pub(super) async fn end_parcel(&mut self) -> Result<(), Error> {
        let Some(kept) = self.kept.as_mut().filter(|kept| kept.open_rows() > 0) else { return Ok(()) };
        let ticket = self.core.feed.end_parcel()?;
        kept.close(ticket);
        kept.forget(self.core.feed.out.flight.settled());
        if kept.bytes > KEPT_BYTES_MAX {
            self.settle().await?;
        }
        Ok(())
    }

    /// Waits until every row that is kept is acknowledged.
    pub(super) async fn settle(&mut self) -> Result<(), Error> {
        if self.kept.is_none() {
            return Ok(());
        }
        while let failed @ Err(_) = self.drain().await {
            self.resume(failed).await?;
        }
        if let Some(kept) = &mut self.kept {
            kept.clear();
        }
        self.core.feed.end_parcel().map(drop)
    }

    /// Sends the stored rows again, repeatedly as long as Kafka refuses records that can go to the
    /// dead-letter topic.
    async fn resume(&mut self, mut sent: Result<(), Error>) -> Result<(), Error> {
        while let Err(failure) = sent {
            let Some(mut kept) = self.kept.take() else { return Err(failure) };
            self.begin_again(failure, &mut kept).await?;
            tracing::info!(
                rows = kept.rows.saturating_sub(kept.acknowledged()),
                "Kafka refused a record: a new producer sends the unacknowledged rows of the snapshot again"
            );
            sent = self.send_again(&mut kept).await;
            self.kept = Some(kept);
        }
        Ok(())
    }

    async fn send_again(&mut self, kept: &mut Unacknowledged) -> Result<(), Error> {
        for parcel in &mut kept.parcels {
            for row in (0..parcel.rows.len()).filter_map(|index| parcel.rows.row(index)) {
                self.send_arranged(parcel.table, &row).await?;
            }
            if parcel.state != State::Open {
                parcel.state = State::Sent(self.core.feed.end_parcel()?);
            }
        }
        Ok(())
    }

    /// Restarts with a new producer behind the rows that are acknowledged, once nothing of the old one is in
    /// flight.
    ///
    /// # Errors
    /// The cause of the failure, when it is another than a record for the dead-letter topic.
    async fn begin_again(&mut self, failure: Error, kept: &mut Unacknowledged) -> Result<(), Error> {
        let cause = self.returned(Some(&failure)).await?.unwrap_or(failure);
        if !cause.is_condemned() {
            return Err(cause);
        }
        kept.forget(self.core.feed.out.flight.settled());
        self.resolver.metrics.reconnect(cause.peer());
        let replaced = self.parts.producer.replace()?;
        self.answer = None;
        let mut core = new_core(self.parts, self.resolver.metrics, self.at);
        core.feed.continue_from(&mut self.core.feed, kept.acknowledged())?;
        self.core = core;
        // Its end waits for its threads.
        let ended = spawn_blocking(move || replaced.end()).await;
        ended.map_err(|_| kafka::Error::Fatal("it cannot be replaced".to_owned()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pgoutput::ColumnValue;

    const TABLES: [Oid; 2] = [Oid(1), Oid(2)];

    fn push(kept: &mut Unacknowledged, table: Oid, rows: usize) {
        for _ in 0..rows {
            kept.push(table, &[ColumnValue::Text(b"row")].into_iter().collect());
        }
    }

    fn parcels(kept: &Unacknowledged) -> Vec<(u64, usize)> {
        kept.parcels.iter().map(|parcel| (parcel.before, parcel.rows.len())).collect()
    }

    #[test]
    fn rows_are_kept_until_all_before_them_are_acknowledged() {
        let mut kept = Unacknowledged::default();
        push(&mut kept, TABLES[0], PARCEL_ROWS);
        assert_eq!(kept.open_rows(), PARCEL_ROWS);
        kept.close(Some(Ticket(4)));
        assert_eq!(kept.open_rows(), 0);
        // Nothing of it is on its way any more, but of the one before.
        push(&mut kept, TABLES[0], PARCEL_ROWS);
        kept.close(None);
        push(&mut kept, TABLES[0], PARCEL_ROWS);
        kept.close(Some(Ticket(6)));
        kept.forget(Ticket(4));
        assert_eq!(parcels(&kept), [(0, 50), (50, 50), (100, 50)]);
        assert_eq!((kept.acknowledged(), kept.bytes), (0, 450));
        push(&mut kept, TABLES[0], 2);
        kept.forget(Ticket(6));
        assert_eq!(parcels(&kept), [(100, 50), (150, 2)]);
        assert_eq!((kept.acknowledged(), kept.bytes), (100, 156));
        kept.clear();
        assert_eq!((kept.acknowledged(), kept.bytes), (152, 0));
    }

    #[test]
    fn the_rows_of_another_table_are_another_parcel() {
        let mut kept = Unacknowledged::default();
        for table in TABLES {
            push(&mut kept, table, 3);
        }
        assert_eq!(parcels(&kept), [(0, 3), (3, 3)]);
    }
}
