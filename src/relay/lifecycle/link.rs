//! The result of an opening: a started stream with its SQL connection, the stored progress, and the writer of positions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::order::Streamed;
use crate::postgres::{self, ReplicationStream, Sql};
use crate::relay::capture::preflight::Capture;
use crate::relay::capture::standby::ForwardedSignal;
use crate::relay::delivery::exactly_once::{Source, State, Timelines};
use crate::relay::delivery::repeats;
use crate::relay::delivery::repeats::RepeatRange;
use crate::relay::origin::Origin;
use crate::relay::progress::comparison::StoredSnapshots;
use crate::relay::progress::position_store::PositionWriter;
use crate::source_offset::SourceOffset;
use crate::wal::{Lsn, Oid, PgTimestamp};

/// Longest time that the stream may outlive the SQL connection. A fast shutdown ends the SQL connection at
/// once and then waits for walsenders until all is confirmed, which never happens while Kafka is down: the
/// stream must end for the server to stop.
const SQL_LOSS_GRACE: Duration = Duration::from_secs(3);

/// A started stream, and what it stands on.
#[derive(Debug)]
pub(in crate::relay) struct Link {
    pub(in crate::relay) stream: ReplicationStream,
    pub(in crate::relay) sql: Arc<Sql>,
    pub(in crate::relay) confirmed: Lsn,
    /// True if its opening has sent the rows of the tables.
    pub(in crate::relay) sent_snapshot: bool,
    /// LSN at which the stream ends for the snapshot of `snapshot.mode=always`.
    pub(in crate::relay) snapshot_after: Option<Lsn>,
    pub(in crate::relay) origin: Origin,
    /// The slot was there before this start.
    pub(in crate::relay) goes_on: bool,
    /// True if the slot is where outboxd left it: neither recreated nor accepted elsewhere.
    pub(in crate::relay) is_where_left: bool,
    /// The database whose slot it is.
    pub(in crate::relay) database: Oid,
    /// The offset that was stored when this process began.
    pub(in crate::relay) stored: Option<SourceOffset>,
    /// Progress of incremental snapshots in the position that is stored in Kafka.
    pub(in crate::relay) snapshots: Option<StoredSnapshots>,
    /// Writes the session's positions.
    pub(in crate::relay) position: PositionWriter,
    pub(in crate::relay) capture: Capture,
    /// End of the WAL when the stream had started: what is written behind it cannot have been sent before.
    pub(in crate::relay) wal_end: Lsn,
    /// Time of the server's clock then: what the slot had passed before committed earlier.
    pub(in crate::relay) clock: PgTimestamp,
    /// `wal_sender_timeout` in milliseconds; 0 is never.
    pub(in crate::relay) wal_sender_timeout_ms: i64,
    /// The server was a standby when the stream began.
    pub(in crate::relay) is_standby: bool,
    /// Source of signals that a standby cannot have in its stream.
    pub(in crate::relay) handed: Option<mpsc::Receiver<ForwardedSignal>>,
    /// Timelines that the server comes from, with exactly-once.
    pub(in crate::relay) timelines: Timelines,
}

impl Link {
    /// Returns the end of the last commit before the stream: that of `stored`, as Debezium reads it; without
    /// a stored offset the slot's position. A new slot has none behind it.
    pub(in crate::relay) fn last_commit(&self, stored: Option<&SourceOffset>) -> Option<Lsn> {
        match stored {
            Some(stored) => stored.last_commit(),
            None => self.goes_on.then_some(self.confirmed),
        }
    }

    /// Returns the stream as the session's beginning depends on it.
    pub(in crate::relay) const fn streamed(&self, follows_end: bool) -> Streamed<'_> {
        Streamed {
            origin: &self.origin,
            confirmed: self.confirmed,
            wal_end: self.wal_end,
            clock: self.clock,
            stored: self.stored.as_ref(),
            follows_end,
        }
    }

    /// Takes over the progress of incremental snapshots from a state: it covers what is committed, which is
    /// more than the position covers, unless the stream continued without a Kafka transaction since. In
    /// another database, or where the slot is not as it was left, they do not continue.
    pub(in crate::relay) fn learn_snapshots(&mut self, state: &State) {
        let Source { system_id, timeline, database_oid, .. } = &state.source;
        let is_other = database_oid.is_some_and(|oid| oid != self.database);
        let Some(kept) = state.snapshots.clone().filter(|_| self.is_where_left && !is_other) else { return };
        let origin = Origin { system_id: system_id.clone(), timeline: *timeline };
        let told = StoredSnapshots { origin, kept };
        let is_newer = |kept: &StoredSnapshots| kept.is_newer_than(&told);
        self.snapshots = self.snapshots.take().filter(is_newer).or(Some(told));
    }

    /// Opens the channel for signals that a standby cannot have in its stream.
    pub(in crate::relay) fn take_signals(&mut self) -> Option<mpsc::Sender<ForwardedSignal>> {
        let (sender, receiver) = mpsc::channel(1);
        self.handed = Some(receiver).filter(|_| self.is_standby);
        self.is_standby.then_some(sender)
    }

    /// Returns the range of this stream that can be repeated. `follows` means that another process may have
    /// sent last.
    pub(in crate::relay) fn repeat_range(&self, follows: bool) -> RepeatRange {
        RepeatRange {
            system_id: self.origin.system_id.clone(),
            from: self.confirmed,
            to: self.wal_end,
            quiet_at: follows.then(repeats::quiet_at),
        }
    }
}

/// Since when the SQL connection is gone.
#[derive(Debug, Default)]
pub(in crate::relay) struct SqlLoss(Option<Instant>);

impl SqlLoss {
    /// Ends a stream that the server may only be keeping because it waits for us.
    ///
    /// # Errors
    /// When the connection has been gone for a while.
    pub(in crate::relay) fn check(&mut self, sql: &Sql, now: Instant) -> Result<(), postgres::Error> {
        if !sql.is_closed() {
            return Ok(());
        }
        let lost = *self.0.get_or_insert(now);
        if now.saturating_duration_since(lost) < SQL_LOSS_GRACE {
            return Ok(());
        }
        let source = std::io::ErrorKind::ConnectionAborted.into();
        Err(postgres::Error::Broken { doing: "streaming: the SQL connection was ended", source })
    }
}
