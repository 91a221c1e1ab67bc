use std::time::Duration;

/// The limits and the patience of the relay itself.
#[derive(Debug, Clone)]
pub struct Options {
    /// `outboxd.inflight.records.max` (20 000): records handed to the producer and not yet acknowledged.
    pub inflight_records_max: usize,
    /// `outboxd.inflight.bytes.max` (8 MiB): their key and value bytes. One larger record may always be in flight alone.
    pub inflight_bytes_max: usize,
    /// `outboxd.shutdown.timeout.ms` (25 s): how long a stop may drain.
    pub shutdown_timeout: Duration,
    /// `outboxd.startup.timeout.ms` (5 s): how long servers that do not answer at start are tried; `None` is for ever.
    pub startup_timeout: Option<Duration>,
    /// `errors.max.retries` (-1, unlimited): how often a broken connection is mended before the process gives up.
    pub retries_max: Option<u32>,
    /// `errors.tolerance=all`: a row that cannot be routed or converted is logged, counted and passed over.
    pub tolerate_rows: bool,
    /// `skipped.operations`.
    pub skipped: SkippedOperations,
}

/// The operations that `skipped.operations` leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkippedOperations {
    /// `c`: inserts; an outbox then sends nothing.
    pub create: bool,
    /// `u`.
    pub update: bool,
    /// `d`.
    pub delete: bool,
    /// `t`: the default.
    pub truncate: bool,
}
