//! The login at Kafka, whose files may change: new clients use it, in a session of their own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval};

use crate::kafka::refresh_login;
use crate::relay::parts::RelayParts;
use crate::telemetry::{Phase, Snapshot, Status};

/// Time between two readings.
const INTERVAL: Duration = Duration::from_secs(5);

/// Time after which a snapshot that sends nothing is not waited for: it may lack the changed login.
const SNAPSHOT_PATIENCE: Duration = Duration::from_secs(60);

/// Reads the login's files from time to time, and calls `replace_clients` after a change. It never ends.
pub(in crate::relay) async fn watch(parts: &Arc<RelayParts>, status: &Status, replace_clients: impl Fn()) {
    let Some(login) = &parts.kafka.login else { return std::future::pending().await };
    let (mut readings, mut last_error, mut is_due) = (interval(INTERVAL), None, false);
    readings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        readings.tick().await;
        match refresh(parts).await {
            Ok(is_changed) => {
                last_error = None;
                if is_changed {
                    tracing::info!(
                        component = "kafka",
                        "the login at Kafka has changed: a new session uses it"
                    );
                    // The records in flight may need another connection.
                    parts.producer.use_password(login);
                    is_due = true;
                }
            }
            // A file may be replaced at this moment, and a certificate may be there before its key.
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
        if is_due && !sends_a_snapshot(&status.snapshot(), Instant::now()) {
            is_due = false;
            replace_clients();
        }
    }
}

async fn refresh(parts: &Arc<RelayParts>) -> Result<bool, String> {
    let parts = Arc::clone(parts);
    let read = tokio::task::spawn_blocking(move || refresh_login(&parts.kafka)).await;
    read.unwrap_or_else(|aborted| Err(aborted.to_string()))
}

/// Returns whether a start sends rows: another session would begin with the first of them again.
fn sends_a_snapshot(state: &Snapshot, now: Instant) -> bool {
    let advances = |since: Instant| now.saturating_duration_since(since) < SNAPSHOT_PATIENCE;
    state.phase == Phase::Connecting && state.snapshot_waits.is_some_and(advances)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::{Limits, TablesRead};

    #[test]
    fn a_snapshot_is_waited_for_while_it_advances() {
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let status = Status::new(Limits::default(), start);
        let waits = |seconds| sends_a_snapshot(&status.snapshot(), later(seconds));
        assert!(!waits(0));
        let read = TablesRead { tables: 1, remaining: 1, ..TablesRead::default() };
        status.read_tables(read, start);
        assert!(waits(59) && !waits(60));
        status.read_tables(TablesRead { rows: 1, ..read }, later(50));
        assert!(waits(109) && !waits(110));
        status.enter(Phase::Streaming);
        assert!(!waits(51), "an incremental snapshot goes on in the next session");
    }
}
