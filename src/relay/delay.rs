//! Pauses that the configuration asks for.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::telemetry::Status;

/// How often a pause shows that the process lives.
const TICK: Duration = Duration::from_secs(1);

/// Waits as long as this key says, if it says anything.
pub(super) async fn wait(length: Duration, key: &str, status: &Status) {
    if length.is_zero() {
        return;
    }
    tracing::info!(seconds = length.as_secs_f64(), "waiting, as {key} says");
    let end = Instant::now() + length;
    loop {
        status.tick_idle(Instant::now());
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        sleep(left.min(TICK)).await;
    }
}
