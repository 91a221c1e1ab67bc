//! The login at Kafka, whose files may change: new clients use it, in a session of their own.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::kafka::Login;
use crate::relay::parts::RelayParts;
use crate::telemetry::{Phase, Status};

/// Time between two readings.
const INTERVAL: Duration = Duration::from_secs(5);

/// Time after which a relay that sends a snapshot is looked at again.
const SNAPSHOT_INTERVAL: Duration = Duration::from_secs(1);

/// Reads the login's files from time to time, and notifies `changed` when all clients have to be replaced. It never ends.
pub(in crate::relay) async fn watch(parts: &Arc<RelayParts>, status: &Status, changed: &Notify) {
    let Some(login) = &parts.kafka.login else { return std::future::pending().await };
    let (mut readings, mut last_error) = (interval(INTERVAL), None);
    readings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        readings.tick().await;
        match refresh(login).await {
            Ok(false) => last_error = None,
            Ok(true) => {
                last_error = None;
                tracing::info!(component = "kafka", "the login at Kafka has changed: a new session uses it");
                // The records in flight may need another connection.
                parts.producer.use_password(login);
                while sends_a_snapshot(status) {
                    sleep(SNAPSHOT_INTERVAL).await;
                }
                changed.notify_one();
            }
            // A file may be replaced at this moment.
            Err(error) => {
                if last_error.as_ref() != Some(&error) {
                    tracing::warn!(
                        component = "kafka",
                        error,
                        "the login at Kafka cannot be read again; the last one stays"
                    );
                }
                last_error = Some(error);
            }
        }
    }
}

async fn refresh(login: &Login) -> Result<bool, String> {
    let login = login.clone();
    let read = tokio::task::spawn_blocking(move || login.refresh().map_err(|error| error.to_string())).await;
    read.unwrap_or_else(|aborted| Err(aborted.to_string()))
}

/// Returns whether a start sends rows: another session would begin with the first of them again.
fn sends_a_snapshot(status: &Status) -> bool {
    let state = status.snapshot();
    state.phase == Phase::Connecting && state.tables_read.remaining > 0
}
