//! Spans of a row.

use std::sync::Arc;

use super::context::{SpanId, TraceId};

/// Name of the span that begins at the commit, as in Debezium.
pub const WRITE_OPERATION: &str = "db-log-write";

/// Facts of a row when it is read. Times are microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowMoment {
    /// Commit of its transaction, by the server's clock.
    pub committed_us: i64,
    /// Time when the row was read.
    pub read_us: i64,
    /// Debezium's code of the operation on the row.
    pub operation: &'static str,
    /// Position in the WAL.
    pub lsn: u64,
    /// Id of its transaction; `None` for a row of a snapshot.
    pub xid: Option<i64>,
}

/// Spans of a record in flight: one from the commit to the acknowledgement, and inside it the one that sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenSpan {
    /// The trace.
    pub trace: TraceId,
    /// The span that wrote the row.
    pub parent: Option<SpanId>,
    /// The span from the commit to the acknowledgement.
    pub write: SpanId,
    /// The span that the record's header names.
    pub send: SpanId,
    /// The `tracestate` of the row, if it has one.
    pub state: Option<String>,
    /// Name of the span that sends.
    pub name: Arc<str>,
    /// The table, with its schema.
    pub table: Arc<str>,
    /// Position and times of the row.
    pub row: RowMoment,
}

/// Position of an acknowledged record, and the time of the acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery<'r> {
    /// The topic of the record.
    pub topic: &'r str,
    /// The partition of the record.
    pub partition: i32,
    /// The offset of the record.
    pub offset: i64,
    /// Time of the acknowledgement, in microseconds since the Unix epoch.
    pub at_us: i64,
}

/// Spans of an acknowledged record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedSpan {
    /// The spans as they were opened.
    pub span: OpenSpan,
    /// The topic of the record.
    pub topic: String,
    /// The partition of the record.
    pub partition: i32,
    /// The offset of the record.
    pub offset: i64,
    /// Time of the acknowledgement, in microseconds since the Unix epoch.
    pub at_us: i64,
}

impl FinishedSpan {
    /// Returns the start of the span from the commit, in microseconds since the Unix epoch. It is not after the row was
    /// read, even if the server's clock is ahead.
    pub fn committed_us(&self) -> i64 {
        self.span.row.committed_us.min(self.span.row.read_us)
    }

    /// Returns the end of both spans, in microseconds since the Unix epoch. It is not before the row was read.
    pub fn ended_us(&self) -> i64 {
        self.at_us.max(self.span.row.read_us)
    }
}
