//! Producer of dead letters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rdkafka::config::FromClientConfigAndContext as _;
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, ProducerContext};
use rdkafka::{ClientConfig, ClientContext};
use tokio::sync::oneshot;

/// Maximum wait for an event. The thread ends within it once the producer is dropped.
///
/// rdkafka waits for whole milliseconds, and polls without a pause in the rest. So the wait has some microseconds more than whole
/// milliseconds: they pass before and after it.
const WAIT: Duration = Duration::from_micros(100_200);

/// Sender of the result of a record.
type Report = Box<oneshot::Sender<KafkaResult<()>>>;

/// Record to send.
pub(super) type Record<'r> = BaseRecord<'r, [u8], [u8], Report>;

/// Producer whose events are handled on a thread of its own, until it is dropped. rdkafka's `FutureProducer` does the same, and uses a
/// hundredth of a core while nothing happens.
pub(super) struct Producer {
    inner: Arc<BaseProducer<Context>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Context that passes on the result of each record.
struct Context;

impl ClientContext for Context {}

impl ProducerContext for Context {
    type DeliveryOpaque = Report;

    fn delivery(&self, result: &DeliveryResult<'_>, report: Report) {
        let result = result.as_ref().map(drop).map_err(|(error, _)| error.clone());
        // A sender that was cancelled does not wait for it.
        report.send(result).ok();
    }
}

impl Producer {
    pub(super) fn new(config: &ClientConfig) -> KafkaResult<Self> {
        let inner = Arc::new(BaseProducer::from_config_and_context(config, Context)?);
        let (polled, stop) = (Arc::clone(&inner), Arc::new(AtomicBool::new(false)));
        let is_over = Arc::clone(&stop);
        let poll = move || {
            while !is_over.load(Ordering::Relaxed) {
                polled.poll(WAIT);
            }
        };
        let spawned = thread::Builder::new().name("inbox-dead-letters".to_owned()).spawn(poll);
        let thread = spawned.map_err(|error| KafkaError::ClientCreation(format!("no thread: {error}")))?;
        Ok(Self { inner, stop, thread: Some(thread) })
    }

    /// Sends a record, and waits until the brokers have acknowledged or refused it.
    pub(super) async fn send<'r>(&self, record: impl FnOnce(Report) -> Record<'r>) -> KafkaResult<()> {
        let (report, result) = oneshot::channel();
        self.inner.send(record(Box::new(report))).map_err(|(error, _)| error)?;
        result.await.map_err(|_| KafkaError::Canceled)?
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the producer of dead letters has panicked");
        }
    }
}
