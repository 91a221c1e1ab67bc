use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::client::Client;
use super::error::Error;
use super::message::{SPANS_OF_RECORD, request};
use super::options::Options;
use crate::error::{Class, Diagnose as _, chain};
use crate::telemetry::{Metrics, SpanLoss};
use crate::trace::SpanLog;

/// The first wait before a batch is sent again; each further one is twice as long.
const RETRY_WAIT: Duration = Duration::from_secs(1);
/// What goes on is told this often.
const TELL_INTERVAL: Duration = Duration::from_secs(60);

/// Takes finished spans from the log and sends them to a collector.
pub(crate) struct Exporter {
    client: Client,
    options: Options,
    log: SpanLog,
    full: Arc<Notify>,
}

/// What was last told, and when.
#[derive(Default)]
struct Told {
    failed_at: Option<Instant>,
    dropped_at: Option<Instant>,
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Exporter {
    /// With an empty log.
    ///
    /// # Errors
    /// When certificates cannot be read.
    pub(crate) fn new(options: Options) -> Result<Self, Error> {
        let full = Arc::new(Notify::new());
        let records = |spans: usize| (spans / SPANS_OF_RECORD).max(1);
        let (queue, waker) = (records(options.queue_max), Arc::clone(&full));
        let batch = records(options.batch_max).min(queue);
        let log = SpanLog::new(queue, batch, move || waker.notify_one());
        Ok(Self { client: Client::new(options.clone())?, options, log, full })
    }

    /// Where spans come together.
    pub(crate) fn log(&self) -> SpanLog {
        self.log.clone()
    }

    /// Exports until `stop`, and then what there still is. What the collector does not take in time is counted as lost.
    pub(crate) async fn run(self, metrics: Metrics, stop: CancellationToken) {
        let mut told = Told::default();
        while !stop.is_cancelled() {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.full.notified() => {}
                () = sleep(self.options.delay) => {}
            }
            self.send_all(&metrics, &stop, &mut told).await;
        }
    }

    async fn send_all(&self, metrics: &Metrics, stop: &CancellationToken, told: &mut Told) {
        loop {
            self.count_dropped(metrics, told);
            let batch = self.log.take();
            if batch.is_empty() {
                return;
            }
            let count = spans_of(u64::try_from(batch.len()).unwrap_or(u64::MAX));
            match self.send(&request(&self.options.resource, &batch), stop).await {
                Ok(refused) => {
                    metrics.spans_exported(count.saturating_sub(refused));
                    metrics.spans_lost(SpanLoss::Refused, refused);
                    told.works();
                }
                Err(error) => {
                    metrics.spans_lost(SpanLoss::Unreachable, count);
                    told.failed(&error);
                }
            }
            if !self.log.has_batch() && !stop.is_cancelled() {
                return;
            }
        }
    }

    /// Sends a batch, again and again while that can help. After `stop` it is sent once more, and that is all.
    async fn send(
        &self,
        request: &opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest,
        stop: &CancellationToken,
    ) -> Result<u64, Error> {
        let (deadline, mut wait) = (Instant::now() + self.options.patience, RETRY_WAIT);
        loop {
            let stopping = stop.is_cancelled();
            let sent = tokio::select! {
                biased;
                sent = self.client.send(request) => sent,
                // What the collector has not answered yet it gets once more.
                () = stop.cancelled(), if !stopping => continue,
            };
            let again = Instant::now() + wait;
            match sent {
                Err(error) if error.class() != Class::Transient || stopping || again > deadline => {
                    return Err(error);
                }
                Err(_) => drop(timeout_at(again, stop.cancelled()).await),
                Ok(refused) => return Ok(refused),
            }
            wait = wait.saturating_mul(2);
        }
    }

    fn count_dropped(&self, metrics: &Metrics, told: &mut Told) {
        let dropped = self.log.take_dropped();
        metrics.spans_lost(SpanLoss::QueueFull, spans_of(dropped.queue));
        metrics.spans_lost(SpanLoss::NotSent, spans_of(dropped.open));
        if dropped.queue > 0 {
            told.dropped(spans_of(dropped.queue));
        }
    }
}

fn spans_of(records: u64) -> u64 {
    u64::try_from(SPANS_OF_RECORD).map_or(records, |each| records.saturating_mul(each))
}

impl Told {
    fn works(&mut self) {
        if self.failed_at.take().is_some() {
            tracing::info!("spans are exported again");
        }
    }

    fn failed(&mut self, error: &Error) {
        if is_due(&mut self.failed_at) {
            tracing::warn!(
                error = chain(error),
                cure = error.cure(),
                "spans were not exported: events go on"
            );
        }
    }

    fn dropped(&mut self, spans: u64) {
        if is_due(&mut self.dropped_at) {
            tracing::warn!(spans, "spans were dropped: more come than OTEL_BSP_MAX_QUEUE_SIZE lets wait");
        }
    }
}

/// Once, and then once a minute.
fn is_due(told_at: &mut Option<Instant>) -> bool {
    let is_due = told_at.is_none_or(|at| at.elapsed() >= TELL_INTERVAL);
    if is_due {
        *told_at = Some(Instant::now());
    }
    is_due
}
