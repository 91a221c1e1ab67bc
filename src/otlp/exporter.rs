//! Export of finished spans.

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, iter, mem};

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::client::{Client, Rejection};
use super::error::Error;
use super::message::{SPANS_OF_RECORD, request};
use super::options::Options;
use crate::error::{Class, Diagnose as _, chain};
use crate::telemetry::{Metrics, SpanLoss};
use crate::trace::SpanLog;

/// The first wait before a batch is sent again; each further one is twice as long.
const RETRY_WAIT: Duration = Duration::from_secs(1);
/// Interval in which a lasting problem is logged.
const TELL_INTERVAL: Duration = Duration::from_secs(60);

/// Takes finished spans from the log and sends them to a collector.
pub(crate) struct Exporter {
    client: Client,
    options: Options,
    log: SpanLog,
    full: Arc<Notify>,
}

/// Last logged problem, and the time.
#[derive(Default)]
struct LastReport {
    failed_at: Option<Instant>,
    refused_at: Option<Instant>,
    dropped_at: Option<Instant>,
}

/// Counts of an export. When the exporter is not given the time to end, what it has left is counted as well.
struct Course {
    metrics: Metrics,
    log: SpanLog,
    last_report: LastReport,
    /// Spans of the request that is being sent.
    in_hand: u64,
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Exporter {
    /// Creates it with an empty log.
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

    /// Returns the log that collects spans.
    pub(crate) fn log(&self) -> SpanLog {
        self.log.clone()
    }

    /// Exports until `stop`, and then what there still is. What the collector does not take in time is counted as lost.
    pub(crate) async fn run(mut self, metrics: Metrics, stop: CancellationToken) {
        let mut course = Course { metrics, log: self.log(), last_report: LastReport::default(), in_hand: 0 };
        while !stop.is_cancelled() {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.full.notified() => {}
                () = sleep(self.options.delay) => {}
            }
            self.send_all(&stop, &mut course).await;
        }
    }

    async fn send_all(&mut self, stop: &CancellationToken, course: &mut Course) {
        loop {
            course.count_dropped();
            let batch = self.log.take();
            if batch.is_empty() {
                return;
            }
            course.in_hand = spans_in(batch.len());
            let outcome = self.send(&request(&self.options.resource, &batch), stop).await;
            course.count(outcome);
            if !self.log.has_batch() && !stop.is_cancelled() {
                return;
            }
        }
    }

    /// Sends a batch, repeatedly while that can help. After `stop` it is sent only once more.
    async fn send(
        &mut self,
        request: &opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest,
        stop: &CancellationToken,
    ) -> Result<Rejection, Error> {
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
                Ok(rejection) => return Ok(rejection),
            }
            wait = wait.saturating_mul(2);
        }
    }
}

impl Course {
    fn count(&mut self, outcome: Result<Rejection, Error>) {
        let count = mem::take(&mut self.in_hand);
        match outcome {
            Ok(rejection) => {
                self.metrics.spans_exported(count.saturating_sub(rejection.spans));
                self.metrics.spans_lost(SpanLoss::Refused, rejection.spans);
                self.last_report.works();
                if rejection.spans > 0 {
                    self.last_report.refused(&rejection);
                }
            }
            Err(error) => {
                self.metrics.spans_lost(error.loss(), count);
                self.last_report.failed(&error);
            }
        }
    }

    fn count_dropped(&mut self) {
        let dropped = self.log.take_dropped();
        self.metrics.spans_lost(SpanLoss::QueueFull, spans_of(dropped.queue));
        self.metrics.spans_lost(SpanLoss::NotSent, spans_of(dropped.open));
        if dropped.queue > 0 {
            self.last_report.dropped(spans_of(dropped.queue));
        }
    }
}

impl Drop for Course {
    fn drop(&mut self) {
        self.count_dropped();
        let batches = iter::repeat_with(|| self.log.take().len()).take_while(|count| *count > 0);
        let left = batches.map(spans_in).fold(self.in_hand, u64::saturating_add);
        if left > 0 {
            self.metrics.spans_lost(SpanLoss::Unreachable, left);
            tracing::warn!(
                spans = left,
                "spans were not exported: the collector did not accept them before the shutdown"
            );
        }
    }
}

fn spans_in(records: usize) -> u64 {
    spans_of(u64::try_from(records).unwrap_or(u64::MAX))
}

fn spans_of(records: u64) -> u64 {
    u64::try_from(SPANS_OF_RECORD).map_or(records, |each| records.saturating_mul(each))
}

impl LastReport {
    fn works(&mut self) {
        if self.failed_at.take().is_some() {
            tracing::info!("spans are exported again");
        }
    }

    fn failed(&mut self, error: &Error) {
        if is_due(&mut self.failed_at) {
            tracing::warn!(
                error = chain(error),
                fix = error.fix(),
                "spans were not exported; events are not affected"
            );
        }
    }

    fn refused(&mut self, Rejection { spans, reason }: &Rejection) {
        if is_due(&mut self.refused_at) {
            tracing::warn!(spans, reason, "the collector refused spans; events are not affected");
        }
    }

    fn dropped(&mut self, spans: u64) {
        if is_due(&mut self.dropped_at) {
            tracing::warn!(spans, "spans were dropped: the queue is full (OTEL_BSP_MAX_QUEUE_SIZE)");
        }
    }
}

/// Returns whether a log line is due: once, and then once a minute.
fn is_due(told_at: &mut Option<Instant>) -> bool {
    let is_due = told_at.is_none_or(|at| at.elapsed() >= TELL_INTERVAL);
    if is_due {
        *told_at = Some(Instant::now());
    }
    is_due
}
