use std::sync::Arc;

use super::exactly_once::Timelines;
use super::origin::Origin;
use super::position_store::PositionWriter;
use super::preflight::Capture;
use super::repeats::{self, RepeatRange};
use crate::postgres::{ReplicationStream, Sql};
use crate::source_offset::SourceOffset;
use crate::wal::{Lsn, PgTimestamp};

/// A started stream, and what it stands on.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) stream: ReplicationStream,
    pub(super) sql: Arc<Sql>,
    pub(super) confirmed: Lsn,
    pub(super) origin: Origin,
    /// The offset that was stored when this process began.
    pub(super) stored: Option<SourceOffset>,
    /// Writes the session's positions.
    pub(super) position: PositionWriter,
    pub(super) capture: Capture,
    /// Where the WAL ended when the stream had started: nobody can have sent what is written behind that.
    pub(super) wal_end: Lsn,
    /// What the server's clock said then: what the slot had passed before committed earlier.
    pub(super) clock: PgTimestamp,
    /// `wal_sender_timeout` in milliseconds; 0 is never.
    pub(super) wal_sender_timeout_ms: i64,
    /// With exactly-once, the timelines that the server comes from.
    pub(super) timelines: Timelines,
}

impl Link {
    /// What can come again in this stream. `follows` tells that this process had no hand in what was sent last.
    pub(super) fn repeat_range(&self, follows: bool) -> RepeatRange {
        RepeatRange {
            system_id: self.origin.system_id.clone(),
            from: self.confirmed,
            to: self.wal_end,
            quiet_at: follows.then(repeats::quiet_at),
        }
    }
}
