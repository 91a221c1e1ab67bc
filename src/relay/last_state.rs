use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::error::Error;
use super::exactly_once::State;
use super::options::TransactionOptions;
use super::parts::RelayParts;
use crate::kafka::{self, StateTopic, Stored};

/// How long the state may take to be read.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the last Kafka transaction of this slot says, if one is known. Asked for while nobody has the slot, because there is none.
pub(super) async fn read(parts: &Arc<RelayParts>) -> Result<Option<State>, Error> {
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
pub(super) fn parse(options: &TransactionOptions, slot: &str, bytes: &[u8]) -> Result<State, Error> {
    let (topic, slot) = (options.state_topic.clone(), slot.to_owned());
    State::parse(bytes).map_err(|source| Error::NoState { topic, slot, source })
}
