use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time;
use tokio_util::sync::CancellationToken;

use super::lookout::look;
use super::options::GuardOptions;
use super::parts::RelayParts;
use super::slot_guard::{Change, SlotGuard, cure, unconfirmed_bytes};
use crate::postgres::{self, SlotFacts, SlotOptions, Sql};
use crate::telemetry::{
    CatalogLook, Component, Metrics, SlotDanger, SlotReport, Status, UNACKNOWLEDGED_CURE,
};
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

/// What the watcher of a slot works with.
pub(super) struct SlotWatch {
    pub(super) sql: Arc<Sql>,
    pub(super) parts: Arc<RelayParts>,
    pub(super) metrics: Metrics,
    pub(super) status: Status,
    pub(super) server: ServerLsn,
    pub(super) warnings: SlotWarnings,
    /// Told once when the slot is lost or gone.
    pub(super) lost: mpsc::Sender<postgres::Error>,
}

/// What was told of the slot. It outlives the sessions: a broken connection is no reason to tell it again.
#[derive(Debug, Clone)]
pub(super) struct SlotWarnings(Arc<Mutex<(SlotGuard, Patience)>>);

impl SlotWarnings {
    pub(super) fn nothing(options: GuardOptions) -> Self {
        Self(Arc::new(Mutex::new((SlotGuard::new(options), Patience::default()))))
    }

    fn lock(&self) -> MutexGuard<'_, (SlotGuard, Patience)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotWatch {
    /// Watches the slot beside the data path, so that a slow catalog query never holds up a row.
    /// It goes on until it is aborted.
    pub(super) async fn watch(self) {
        self.status.seen(CatalogLook::Slot, Instant::now());
        loop {
            let looking = self.sql.slot(&self.options().name);
            match look(&self.status, CatalogLook::Slot, looking).await {
                Ok(Some(facts)) => self.take(&facts),
                Ok(None) => self.tell_lost("it was dropped"),
                Err(error) => {
                    tracing::debug!(slot = %self.options().name, %error, "the slot's state cannot be read");
                }
            }
            let most = self.parts.relay.guard.unacknowledged_max;
            self.warnings.lock().1.look(self.oldest_unacknowledged(), most);
            time::sleep(INTERVAL).await;
        }
    }

    fn take(&self, facts: &SlotFacts) {
        self.server.set(facts.server_lsn);
        let (report, change) = self.warnings.lock().0.look(facts);
        self.metrics.slot(report);
        let in_danger = report.danger > SlotDanger::None;
        self.status.slot(report, in_danger.then(|| cure(facts, self.oldest_unacknowledged())));
        match change {
            Some(Change::Worse) => self.warn(facts, report),
            Some(Change::Better) => {
                let (slot, danger) = (&self.options().name, report.danger.name());
                tracing::info!(%slot, danger, retained_bytes = facts.retained_bytes, "the slot holds back less WAL again");
            }
            None => {}
        }
        match (facts.invalidation(), report.danger) {
            (Some(reason), _) => self.tell_lost(&reason),
            (None, SlotDanger::Unreserved) => {
                let slot = &self.options().name;
                let reason = format!(
                    "replication slot {slot} is unreserved: it holds back more WAL than max_slot_wal_keep_size"
                );
                self.status.down(Component::Slot, reason, Instant::now());
            }
            (None, _) => self.status.up(Component::Slot, Instant::now()),
        }
    }

    fn warn(&self, facts: &SlotFacts, report: SlotReport) {
        let (slot, danger, cure) =
            (&self.options().name, report.danger.name(), cure(facts, self.oldest_unacknowledged()));
        let wal_status = facts.wal_status.as_deref().unwrap_or("none");
        let (retained_bytes, safe_wal_bytes) = (facts.retained_bytes, facts.safe_wal_bytes);
        let unconfirmed_bytes = unconfirmed_bytes(facts);
        match report.danger {
            SlotDanger::None | SlotDanger::Watch => tracing::warn!(
                %slot, danger, wal_status, retained_bytes, unconfirmed_bytes, safe_wal_bytes, cure,
                "the slot holds back much WAL"
            ),
            SlotDanger::Alarm => tracing::error!(
                %slot, danger, wal_status, retained_bytes, unconfirmed_bytes, safe_wal_bytes, cure,
                "the slot holds back most of the WAL that it may keep"
            ),
            SlotDanger::Unreserved => tracing::error!(
                %slot, danger, wal_status, retained_bytes, unconfirmed_bytes, safe_wal_bytes, cure,
                "the slot may be lost at the next checkpoint, and with it every event that is not sent"
            ),
            SlotDanger::Lost => tracing::error!(%slot, danger, wal_status, "the slot is lost"),
        }
    }

    /// The stream will end with it; a relay that waits for Kafka need not wait any longer.
    fn tell_lost(&self, reason: &str) {
        let error = self.options().lost(reason);
        self.status.down_by(Component::Slot, &error, Instant::now());
        // Told already when there is no room.
        drop(self.lost.try_send(error));
    }

    fn oldest_unacknowledged(&self) -> Option<Duration> {
        self.status.snapshot().progress.oldest_unacknowledged.map(|since| since.elapsed())
    }

    fn options(&self) -> &SlotOptions {
        &self.parts.postgres.slot
    }
}

/// Tells once of an event that waits too long, and once that none does any more.
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
                cure = UNACKNOWLEDGED_CURE,
                "an event has waited too long for its acknowledgement"
            );
        } else {
            tracing::info!("events are acknowledged in time again");
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
