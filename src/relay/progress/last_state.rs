//! Exactly once: reads the state of the slot's last Kafka transaction, without fencing its producer.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::kafka::{self, StateTopic, Stored};
use crate::relay::delivery::exactly_once::State;
use crate::relay::error::Error;
use crate::relay::options::TransactionOptions;
use crate::relay::parts::RelayParts;

/// Time that reading the state may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads the state of the last Kafka transaction of this slot, if there is one. Called while the slot does
/// not exist, so that no other client has it.
pub(in crate::relay) async fn read(parts: &Arc<RelayParts>) -> Result<Option<State>, Error> {
    let Some(options) = &parts.relay.transactions else { return Ok(None) };
    let (topic, slot) =
        (StateTopic::new(&parts.kafka, &options.state_topic), parts.postgres.slot.name.to_string());
    let stop = CancellationToken::new();
    let _guard = stop.clone().drop_guard();
    let key = slot.clone();
    let stored = spawn_blocking(move || topic.read(key.as_bytes(), PATIENCE, &stop)).await;
    match stored.unwrap_or_else(|_| Err(kafka::Error::Fatal("the question was aborted".to_owned())))? {
        Stored::NoTopic | Stored::Nothing => Ok(None),
        Stored::Value(bytes) => parse(options, &slot, &bytes).map(Some),
    }
}

/// Reads a state.
///
/// # Errors
/// When it is none of ours.
pub(in crate::relay) fn parse(
    options: &TransactionOptions,
    slot: &str,
    bytes: &[u8],
) -> Result<State, Error> {
    let (topic, slot) = (options.state_topic.clone(), slot.to_owned());
    State::parse(bytes).map_err(|source| Error::NoState { topic, slot, source })
}
