use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;

use crate::kafka::{self, PositionTopic, Read};
use crate::relay::parts::RelayParts;
use crate::relay::position::{Phase, Position};
use crate::wal::Lsn;

/// What `check` has to know of the position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeptPosition {
    pub(crate) phase: Phase,
    pub(crate) lsn: Lsn,
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
    Ok(position.map(|Position { phase, lsn, .. }| KeptPosition { phase, lsn }))
}
