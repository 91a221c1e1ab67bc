//! Reads the stored position without taking it over, for commands and for a start that has no slot yet.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;

use crate::kafka::{self, PositionTopic, Read};
use crate::postgres;
use crate::relay::capture::captured::CapturedTable;
use crate::relay::error::Error;
use crate::relay::parts::{RelayParts, RowsAtStart};
use crate::relay::progress::comparison::PARTIAL_SNAPSHOT_FIX;
use crate::relay::progress::position::{Phase, Position, Stopped, acceptable, is_of_dropped};
use crate::wal::{Lsn, Oid};

/// Position as `check` needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredPosition {
    pub(crate) phase: Phase,
    pub(crate) lsn: Lsn,
    /// The values of `outboxd.position.accept` that were believed before.
    pub(crate) accepted: Vec<Lsn>,
    /// Its database. Positions of an earlier outboxd do not have it.
    pub(crate) database: Option<Oid>,
    /// True if outboxd has ended there with everything acknowledged and its source offset stored, if it
    /// stores one.
    pub(crate) ended: bool,
    /// Reason for which outboxd has ended with rows that are not in the stream, until the operator has acted.
    pub(in crate::relay) stopped: Option<Stopped>,
    /// Warnings about tables whose rows may be missing in the stream.
    pub(crate) suspicions: Vec<String>,
}

impl StoredPosition {
    /// Makes one for tests.
    #[cfg(test)]
    pub(crate) const fn of(phase: Phase, lsn: Lsn, accepted: Vec<Lsn>, database: Oid) -> Self {
        Self {
            phase,
            lsn,
            accepted,
            database: Some(database),
            ended: false,
            stopped: None,
            suspicions: Vec::new(),
        }
    }

    /// Sets a stop, for tests.
    #[cfg(test)]
    pub(crate) fn with_stop(self, problem: &str, fix: &str) -> Self {
        Self { stopped: Some(Stopped { problem: problem.to_owned(), fix: fix.to_owned() }), ..self }
    }

    /// Returns the value of `outboxd.position.accept` with which a start continues, whatever the slot is.
    pub(crate) fn acceptable(&self, slot: Option<Lsn>) -> Option<Lsn> {
        acceptable(self.lsn, &self.accepted, slot)
    }

    /// Returns the error that the next start ends with, because the last one has ended with rows that are not
    /// in the stream. `accept` is `outboxd.position.accept`; `rows` are those that each start sends.
    pub(crate) fn stop(
        &self,
        slot: Option<Lsn>,
        accept: Option<Lsn>,
        rows: RowsAtStart,
    ) -> Option<postgres::Error> {
        let acceptable = self.acceptable(slot);
        let is_settled = rows == RowsAtStart::All || accept.is_some() && accept == acceptable;
        let hint = (rows == RowsAtStart::Some).then_some(PARTIAL_SNAPSHOT_FIX);
        self.stopped.as_ref().filter(|_| !is_settled).map(|stopped| stopped.error(acceptable, hint))
    }

    /// Returns whether its database is gone, and another has its name.
    pub(crate) fn is_of_dropped(&self, database: Oid) -> bool {
        is_of_dropped(self.database, database)
    }
}

/// Reads the position that Kafka has, without a relay.
pub(crate) async fn stored_position(
    parts: Arc<RelayParts>,
    patience: Duration,
) -> Result<Option<StoredPosition>, Error> {
    let position = peek_position(&parts, patience).await?;
    Ok(position.map(|position| StoredPosition {
        phase: position.phase,
        lsn: position.lsn,
        database: position.database_oid(),
        ended: position.ended,
        suspicions: position.tables.iter().filter_map(CapturedTable::warning).collect(),
        stopped: position.stopped,
        accepted: position.accepted,
    }))
}

/// Reads the stored position as a start compares it.
pub(in crate::relay) async fn peek_position(
    parts: &Arc<RelayParts>,
    patience: Duration,
) -> Result<Option<Position>, Error> {
    let (parts, options) = (Arc::clone(parts), &parts.relay.position);
    let (Some(topic), key) = (options.topic.clone(), options.key.clone()) else { return Ok(None) };
    let unreadable = |source| Error::NoPosition { topic: topic.clone(), key: key.clone(), source };
    let (name, of) = (topic.clone(), key.clone());
    let asking = spawn_blocking(move || PositionTopic::peek(&parts.kafka, &name, of.as_bytes(), patience));
    let read =
        asking.await.unwrap_or_else(|_| Err(kafka::Error::Fatal("the reading was aborted".to_owned())))?;
    let Read::Values(values) = read else { return Ok(None) };
    Position::newest(&values).map_err(unreadable)
}
