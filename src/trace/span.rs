use std::sync::Arc;

use super::context::{SpanId, TraceId};

/// The span from the commit on, as Debezium names it.
pub(crate) const WRITE_OPERATION: &str = "db-log-write";

/// What is known of a row when it is read. Times are microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowMoment {
    /// When its transaction committed, by the server's clock.
    pub(crate) committed_us: i64,
    /// When it was read.
    pub(crate) read_us: i64,
    /// Debezium's letter for what was done to the row.
    pub(crate) operation: &'static str,
    /// Where it stands in the WAL.
    pub(crate) lsn: u64,
    /// Its transaction; none for a row of a snapshot.
    pub(crate) xid: Option<i64>,
}

/// A record that is on its way: the span from the commit to the acknowledgement, and inside it the one that sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenSpan {
    pub(crate) trace: TraceId,
    /// The span that wrote the row.
    pub(crate) parent: Option<SpanId>,
    pub(crate) write: SpanId,
    /// The span that the record's header names.
    pub(crate) send: SpanId,
    pub(crate) state: Option<String>,
    /// What the span that sends is called.
    pub(crate) name: Arc<str>,
    /// The table, with its schema.
    pub(crate) table: Arc<str>,
    pub(crate) row: RowMoment,
}

/// Where an acknowledged record is, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delivery<'r> {
    pub(crate) topic: &'r str,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    /// Microseconds since the Unix epoch.
    pub(crate) at_us: i64,
}

/// A record that has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FinishedSpan {
    pub(crate) span: OpenSpan,
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) at_us: i64,
}

impl FinishedSpan {
    /// When the span from the commit on begins: not after the row was read, whatever the server's clock says.
    pub(crate) fn committed_us(&self) -> i64 {
        self.span.row.committed_us.min(self.span.row.read_us)
    }

    /// When both end: not before the row was read.
    pub(crate) fn ended_us(&self) -> i64 {
        self.at_us.max(self.span.row.read_us)
    }
}
