use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;

use crate::kafka::{self, PositionTopic, Read};
use crate::relay::parts::RelayParts;
use crate::relay::position::{Phase, Position, acceptable, is_of_dropped};
use crate::wal::{Lsn, Oid};

/// What `check` has to know of the position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptPosition {
    pub(crate) phase: Phase,
    pub(crate) lsn: Lsn,
    /// The values of `outboxd.position.accept` that were believed before.
    pub(crate) accepted: Vec<Lsn>,
    /// Of the database that it is of. Positions of an earlier outboxd do not say it.
    pub(crate) database: Option<Oid>,
}

impl KeptPosition {
    /// The value of `outboxd.position.accept` with which a start goes on, whatever the slot is.
    pub(crate) fn acceptable(&self, slot: Option<Lsn>) -> Option<Lsn> {
        acceptable(self.lsn, &self.accepted, slot)
    }

    /// Whether its database is gone, and another has its name.
    pub(crate) fn is_of_dropped(&self, database: Oid) -> bool {
        is_of_dropped(self.database, database)
    }
}

/// The position that Kafka has, without a relay. One that cannot be read is none: the start says what is wrong with it.
pub(crate) async fn kept_position(
    parts: Arc<RelayParts>,
    patience: Duration,
) -> Result<Option<KeptPosition>, kafka::Error> {
    let asking = spawn_blocking(move || {
        let options = &parts.relay.position;
        let Some(topic) = &options.topic else { return Ok(Read::NoTopic) };
        PositionTopic::peek(&parts.kafka, topic, options.key.as_bytes(), patience)
    });
    let read =
        asking.await.unwrap_or_else(|_| Err(kafka::Error::Fatal("the reading was aborted".to_owned())))?;
    let Read::Values(values) = read else { return Ok(None) };
    let position = Position::newest(&values).ok().flatten();
    Ok(position.map(|position| KeptPosition {
        phase: position.phase,
        lsn: position.lsn,
        database: position.database_oid(),
        accepted: position.accepted,
    }))
}
