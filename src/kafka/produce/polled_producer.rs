//! A producer with a thread that handles its events, as rdkafka's `ThreadedProducer`, which uses a hundredth of a core
//! while nothing happens.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::producer::{BaseProducer, ProducerContext};

/// Longest wait for an event. The thread ends within it once the producer is dropped.
///
/// rdkafka waits for whole milliseconds, and polls without a pause in the rest. So there are some microseconds more than whole
/// milliseconds: they pass before and after the wait.
const WAIT: Duration = Duration::from_micros(100_200);

/// A producer whose events are handled on a thread of its own, until it is dropped.
pub(in crate::kafka) struct PolledProducer<C: ProducerContext + 'static> {
    producer: Arc<BaseProducer<C>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl<C: ProducerContext + 'static> FromClientConfigAndContext<C> for PolledProducer<C> {
    fn from_config_and_context(config: &ClientConfig, context: C) -> KafkaResult<Self> {
        let producer = Arc::new(BaseProducer::from_config_and_context(config, context)?);
        let (polled, stop) = (Arc::clone(&producer), Arc::new(AtomicBool::new(false)));
        let is_over = Arc::clone(&stop);
        let poll = move || {
            while !is_over.load(Ordering::Relaxed) {
                polled.poll(WAIT);
            }
        };
        let spawned = thread::Builder::new().name("kafka-producer".to_owned()).spawn(poll);
        let thread = spawned.map_err(|error| KafkaError::ClientCreation(format!("no thread: {error}")))?;
        Ok(Self { producer, stop, thread: Some(thread) })
    }
}

impl<C: ProducerContext + 'static> Deref for PolledProducer<C> {
    type Target = BaseProducer<C>;

    fn deref(&self) -> &BaseProducer<C> {
        &self.producer
    }
}

impl<C: ProducerContext + 'static> Drop for PolledProducer<C> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of a Kafka producer has panicked");
        }
    }
}
