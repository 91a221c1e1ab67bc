//! Queries the slot's row every 5 s: metrics, warnings, and the end of the session if the slot is lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time;
use tokio_util::sync::CancellationToken;

use super::slot_guard::{Change, SlotGuard, fix, unconfirmed_bytes};
use crate::postgres::{self, SlotFacts, SlotOptions, Sql};
use crate::relay::capture::lookout::look;
use crate::relay::options::GuardOptions;
use crate::relay::parts::RelayParts;
use crate::telemetry::{
    CatalogLook, Component, Condition, Metrics, SlotDanger, SlotReport, Status, UNACKNOWLEDGED_FIX,
};
use crate::wal::Lsn;

/// Interval between two queries for the slot's row. It costs one small query.
const INTERVAL: Duration = Duration::from_secs(5);

/// The same once the session has ended, until its records have come back.
const INTERVAL_ENDED: Duration = Duration::from_millis(500);

/// The interval at which brokers that gave trouble are asked again, and the time limit for an answer.
const KAFKA_INTERVAL: Duration = Duration::from_secs(2);
const KAFKA_PATIENCE: Duration = Duration::from_secs(2);

/// The end of the server's WAL as the SQL connection saw it last.
#[derive(Debug, Clone, Default)]
pub(in crate::relay) struct ServerLsn(Arc<AtomicU64>);

impl ServerLsn {
    pub(in crate::relay) fn get(&self) -> Lsn {
        Lsn::new(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, lsn: Lsn) {
        self.0.store(lsn.get(), Ordering::Relaxed);
    }
}

/// Inputs of the watcher of a slot.
pub(in crate::relay) struct SlotWatch {
    pub(in crate::relay) sql: Arc<Sql>,
    pub(in crate::relay) parts: Arc<RelayParts>,
    pub(in crate::relay) metrics: Metrics,
    pub(in crate::relay) status: Status,
    pub(in crate::relay) server: ServerLsn,
    pub(in crate::relay) warnings: SlotWarnings,
    /// Receives one error when the slot is lost or gone.
    pub(in crate::relay) lost: mpsc::Sender<postgres::Error>,
    /// Cancelled when the session has ended: a lost slot may have ended it.
    pub(in crate::relay) ended: CancellationToken,
}

/// Warnings that were logged about the slot. It outlives the sessions: a broken connection is no reason to
/// log them again.
#[derive(Debug, Clone)]
pub(in crate::relay) struct SlotWarnings(Arc<Mutex<(SlotGuard, Patience)>>);

impl SlotWarnings {
    pub(in crate::relay) fn nothing(options: GuardOptions) -> Self {
        Self(Arc::new(Mutex::new((SlotGuard::new(options), Patience::default()))))
    }

    fn lock(&self) -> MutexGuard<'_, (SlotGuard, Patience)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotWatch {
    /// Watches the slot beside the data path, so that a slow catalog query never holds up a row. Runs until
    /// it is aborted.
    pub(in crate::relay) async fn watch(self) {
        self.status.seen(CatalogLook::Slot, Instant::now());
        loop {
            let looking = self.sql.slot(&self.options().name);
            match look(&self.status, CatalogLook::Slot, looking).await {
                Ok(Some(facts)) => self.take(&facts),
                Ok(None) => self.report_lost("it was dropped"),
                Err(error) => {
                    tracing::debug!(slot = %self.options().name, %error, "the slot's state cannot be read");
                }
            }
            let most = self.parts.relay.guard.unacknowledged_max;
            self.warnings.lock().1.look(self.oldest_unacknowledged(), most);
            let was_ended = self.ended.is_cancelled();
            tokio::select! {
                biased;
                // At once: the relay may be waiting for Kafka in vain.
                () = self.ended.cancelled(), if !was_ended => {}
                () = time::sleep(if was_ended { INTERVAL_ENDED } else { INTERVAL }) => {}
            }
        }
    }

    fn take(&self, facts: &SlotFacts) {
        self.server.set(facts.server_lsn);
        let (report, change) = self.warnings.lock().0.look(facts);
        self.metrics.slot(report);
        let in_danger = report.danger > SlotDanger::None;
        self.status.slot(report, in_danger.then(|| self.fix(facts)));
        match change {
            Some(Change::Worse) => self.warn(facts, report),
            Some(Change::Better) => {
                let (slot, danger) = (&self.options().name, report.danger.name());
                tracing::info!(
                    %slot, danger, retained_bytes = facts.retained_bytes,
                    "WAL retained by the slot is below the limit again"
                );
            }
            None => {}
        }
        match (facts.invalidation(), report.danger) {
            (Some(reason), _) => self.report_lost(&reason),
            (None, SlotDanger::Unreserved) => {
                let slot = &self.options().name;
                let reason = format!(
                    "replication slot {slot} is unreserved: it retains more WAL than max_slot_wal_keep_size"
                );
                self.status.down(Component::Slot, reason, Instant::now());
            }
            (None, _) => self.status.up(Component::Slot, Instant::now()),
        }
    }

    fn warn(&self, facts: &SlotFacts, report: SlotReport) {
        let (slot, danger, fix) = (&self.options().name, report.danger.name(), self.fix(facts));
        let wal_status = facts.wal_status.as_deref().unwrap_or("none");
        let (retained_bytes, safe_wal_bytes) = (facts.retained_bytes, facts.safe_wal_bytes);
        let unconfirmed_bytes = unconfirmed_bytes(facts);
        match report.danger {
            SlotDanger::None | SlotDanger::Watch => tracing::warn!(
                %slot, danger, wal_status, retained_bytes, unconfirmed_bytes, safe_wal_bytes, fix,
                "the slot retains much WAL"
            ),
            SlotDanger::Alarm => tracing::error!(
                %slot, danger, wal_status, retained_bytes, unconfirmed_bytes, safe_wal_bytes, fix,
                "the slot retains most of the allowed WAL"
            ),
            SlotDanger::Unreserved => tracing::error!(
                %slot, danger, wal_status, retained_bytes, unconfirmed_bytes, safe_wal_bytes, fix,
                "the slot may be lost at the next checkpoint, with every unsent event"
            ),
            SlotDanger::Lost => tracing::error!(%slot, danger, wal_status, "the slot is lost"),
        }
    }

    /// Reports that the slot is lost, which also ends a relay that waits for Kafka.
    fn report_lost(&self, reason: &str) {
        let error = self.options().lost(reason);
        self.status.down_by(Component::Slot, &error, Instant::now());
        // Reported already when the channel is full.
        drop(self.lost.try_send(error));
    }

    fn fix(&self, facts: &SlotFacts) -> String {
        let is_kafka_down = matches!(self.status.snapshot().kafka, Condition::Down { .. });
        fix(facts, self.oldest_unacknowledged(), is_kafka_down)
    }

    fn oldest_unacknowledged(&self) -> Option<Duration> {
        self.status.snapshot().progress.oldest_unacknowledged.map(|since| since.elapsed())
    }

    fn options(&self) -> &SlotOptions {
        &self.parts.postgres.slot
    }
}

/// Reports once that an event waits for too long, and once that no event does any more.
#[derive(Debug, Default)]
struct Patience {
    over: bool,
}

impl Patience {
    fn look(&mut self, oldest: Option<Duration>, most: Duration) {
        let over = oldest.is_some_and(|age| age > most);
        if over == std::mem::replace(&mut self.over, over) {
            return;
        }
        let age_seconds = oldest.unwrap_or_default().as_secs();
        if over {
            tracing::warn!(
                age_seconds,
                fix = UNACKNOWLEDGED_FIX,
                "an event waits too long for its acknowledgement"
            );
        } else {
            tracing::info!("events are acknowledged in time again");
        }
    }
}

/// Probes the brokers periodically after connection trouble, until it is stopped.
pub(in crate::relay) async fn watch_kafka(parts: Arc<RelayParts>, stop: CancellationToken) {
    loop {
        if stop.run_until_cancelled(time::sleep(KAFKA_INTERVAL)).await.is_none() {
            return;
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
