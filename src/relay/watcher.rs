use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::time;
use tokio_util::sync::CancellationToken;

use super::supervisor::RelayParts;
use crate::postgres::{SlotFacts, SlotName, Sql};
use crate::telemetry::{Component, Metrics, SlotReport, Status, WalStatus};
use crate::wal::Lsn;

/// How often the slot's row is read. It costs one small query.
const INTERVAL: Duration = Duration::from_secs(5);

/// How often brokers that gave trouble are asked again, and how long for an answer.
const KAFKA_INTERVAL: Duration = Duration::from_secs(2);
const KAFKA_PATIENCE: Duration = Duration::from_secs(2);

/// The end of the server's WAL as the SQL connection saw it last.
#[derive(Debug, Clone, Default)]
pub(super) struct ServerLsn(Arc<AtomicU64>);

impl ServerLsn {
    pub(super) fn get(&self) -> Lsn {
        Lsn::new(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, lsn: Lsn) {
        self.0.store(lsn.get(), Ordering::Relaxed);
    }
}

/// Watches the slot beside the data path, so that a slow catalog query never holds up a row.
pub(super) async fn watch_slot(
    sql: Arc<Sql>,
    slot: SlotName,
    metrics: Metrics,
    status: Status,
    server: ServerLsn,
    stop: CancellationToken,
) {
    loop {
        match sql.slot(&slot).await {
            Ok(Some(facts)) => {
                server.set(facts.server_lsn);
                metrics.slot(report(&facts));
                tell(&facts, &slot, &status);
            }
            Ok(None) => status.down(
                Component::Slot,
                format!("replication slot {slot} does not exist"),
                Instant::now(),
            ),
            // The stream tells when PostgreSQL is gone; this connection alone says nothing new.
            Err(error) => tracing::debug!(%slot, %error, "the slot's state cannot be read"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = time::sleep(INTERVAL) => {}
        }
    }
}

/// Asks the brokers after connection trouble whether they are back.
pub(super) async fn watch_kafka(parts: Arc<RelayParts>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = time::sleep(KAFKA_INTERVAL) => {}
        }
        if parts.producer.deliveries().trouble().is_some() {
            let parts = Arc::clone(&parts);
            let asking = tokio::task::spawn_blocking(move || parts.producer.ask_again(KAFKA_PATIENCE));
            if asking.await.is_err() {
                return;
            }
        }
    }
}

fn report(facts: &SlotFacts) -> SlotReport {
    SlotReport {
        retained_bytes: u64::try_from(facts.retained_bytes).unwrap_or_default(),
        safe_wal_bytes: facts.safe_wal_bytes,
        wal_status: facts.wal_status.as_deref().and_then(WalStatus::from_name),
    }
}

fn tell(facts: &SlotFacts, slot: &SlotName, status: &Status) {
    match facts.wal_status.as_deref() {
        Some(danger @ ("unreserved" | "lost")) => {
            let reason = format!(
                "replication slot {slot} is {danger}: it holds back more WAL than max_slot_wal_keep_size"
            );
            status.down(Component::Slot, reason, Instant::now());
        }
        _ => status.up(Component::Slot, Instant::now()),
    }
}
