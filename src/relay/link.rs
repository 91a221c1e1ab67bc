use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::comparison::KeptSnapshots;
use super::exactly_once::{Source, State, Timelines};
use super::origin::Origin;
use super::position_store::PositionWriter;
use super::preflight::Capture;
use super::repeats::{self, RepeatRange};
use super::standby::Handed;
use crate::postgres::{self, ReplicationStream, Sql};
use crate::source_offset::SourceOffset;
use crate::wal::{Lsn, Oid, PgTimestamp};

/// How long the stream may outlive the SQL connection. A fast shutdown ends the SQL connection at once and then waits
/// for walsenders until all is confirmed, which never happens while Kafka is down: we must let the server stop.
const SQL_LOSS_GRACE: Duration = Duration::from_secs(3);

/// A started stream, and what it stands on.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) stream: ReplicationStream,
    pub(super) sql: Arc<Sql>,
    pub(super) confirmed: Lsn,
    /// Its opening has sent the rows that are in the tables.
    pub(super) sent_snapshot: bool,
    pub(super) origin: Origin,
    /// The slot was there before this start.
    pub(super) goes_on: bool,
    /// It stands where outboxd has left it: neither made anew nor accepted elsewhere.
    pub(super) is_where_left: bool,
    /// The database whose slot it is.
    pub(super) database: Oid,
    /// The offset that was stored when this process began.
    pub(super) stored: Option<SourceOffset>,
    /// How far incremental snapshots were, as the position in Kafka says.
    pub(super) snapshots: Option<KeptSnapshots>,
    /// Writes the session's positions.
    pub(super) position: PositionWriter,
    pub(super) capture: Capture,
    /// Where the WAL ended when the stream had started: nobody can have sent what is written behind that.
    pub(super) wal_end: Lsn,
    /// What the server's clock said then: what the slot had passed before committed earlier.
    pub(super) clock: PgTimestamp,
    /// `wal_sender_timeout` in milliseconds; 0 is never.
    pub(super) wal_sender_timeout_ms: i64,
    /// The server was a standby when the stream began.
    pub(super) is_standby: bool,
    /// Where signals come from that a standby cannot have in its stream.
    pub(super) handed: Option<mpsc::Receiver<Handed>>,
    /// With exactly-once, the timelines that the server comes from.
    pub(super) timelines: Timelines,
}

impl Link {
    /// Where the last commit ended before the stream: what `stored` says of it, as Debezium takes it; without a stored offset it is
    /// where the slot stands. A slot that is new has none behind it.
    pub(super) fn last_commit(&self, stored: Option<&SourceOffset>) -> Option<Lsn> {
        match stored {
            Some(stored) => stored.last_commit(),
            None => self.goes_on.then_some(self.confirmed),
        }
    }

    /// A state says how far incremental snapshots are in what is committed: more than the position, unless the stream went on
    /// without a Kafka transaction since. Of another database, or where the slot is not as it was left, they do not go on.
    pub(super) fn learn_snapshots(&mut self, state: &State) {
        let Source { system_id, timeline, database_oid, .. } = &state.source;
        let is_other = database_oid.is_some_and(|oid| oid != self.database);
        let Some(kept) = state.snapshots.clone().filter(|_| self.is_where_left && !is_other) else { return };
        let origin = Origin { system_id: system_id.clone(), timeline: *timeline };
        let told = KeptSnapshots { origin, kept };
        let is_newer = |kept: &KeptSnapshots| kept.is_newer_than(&told);
        self.snapshots = self.snapshots.take().filter(is_newer).or(Some(told));
    }

    /// Lets signals be handed over that a standby cannot have in its stream.
    pub(super) fn take_signals(&mut self) -> Option<mpsc::Sender<Handed>> {
        let (sender, receiver) = mpsc::channel(1);
        self.handed = Some(receiver).filter(|_| self.is_standby);
        self.is_standby.then_some(sender)
    }

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

/// Since when the SQL connection is gone.
#[derive(Debug, Default)]
pub(super) struct SqlLoss(Option<Instant>);

impl SqlLoss {
    /// Ends a stream that the server may only be keeping because it waits for us.
    ///
    /// # Errors
    /// When the connection has been gone for a while.
    pub(super) fn check(&mut self, sql: &Sql, now: Instant) -> Result<(), postgres::Error> {
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
