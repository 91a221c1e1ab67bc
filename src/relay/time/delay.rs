//! Pauses that the configuration asks for.

use std::time::Duration;

use tokio::time::sleep;

use super::liveness::alive;
use crate::telemetry::Status;

/// Waits for the configured time of this key, if it is not zero.
pub(in crate::relay) async fn wait(length: Duration, key: &str, status: &Status) {
    if length.is_zero() {
        return;
    }
    tracing::info!(seconds = length.as_secs_f64(), "waiting for {key}");
    alive(status, sleep(length)).await;
}
