//! A consumer: reads every record, checks it off, shows it.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::BorrowedMessage;
use rdkafka::{ClientConfig, Message as _, Offset, TopicPartitionList};
use tokio_util::sync::CancellationToken;

use super::error::Error;
use super::screen::Screen;
use super::servers::{Broker, PARTITION_COUNT};
use super::show::Record;
use super::summary::{Arrival, Book};

/// Longest time until a stop is noticed.
const POLL_TIME_MAX: Duration = Duration::from_millis(100);
/// librdkafka's broker does not end a fetch early when a record comes, so a fetch must not wait.
const MOCK_FETCH_WAIT_MS: &str = "5";
const FETCH_WAIT_MS: &str = "500";

/// Reads the demo's topic from its beginning, in no group: it commits nothing.
pub(super) struct Consumer {
    inner: BaseConsumer,
    book: Book,
    screen: Screen,
    /// Cancelled when every partition is being read.
    ready: CancellationToken,
}

impl Consumer {
    pub(super) fn open(broker: &Broker, topic: &str, book: Book, screen: Screen) -> Result<Self, Error> {
        let failed = |error| Error::kafka("setting up the consumer", error);
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &broker.bootstrap_servers).set("client.id", "outboxd-demo-consumer");
        // Asked for by the interface; no partition is assigned through it.
        config.set("group.id", "outboxd-demo").set("enable.auto.commit", "false");
        // Emitted once at the end of each partition: it shows that the partition is being read.
        config.set("enable.partition.eof", "true");
        config.set("fetch.wait.max.ms", if broker.is_mock() { MOCK_FETCH_WAIT_MS } else { FETCH_WAIT_MS });
        let inner: BaseConsumer = config.create().map_err(failed)?;
        let mut partitions = TopicPartitionList::new();
        for partition in 0..PARTITION_COUNT {
            partitions.add_partition_offset(topic, partition, Offset::Beginning).map_err(failed)?;
        }
        inner.assign(&partitions).map_err(failed)?;
        Ok(Self { inner, book, screen, ready: CancellationToken::new() })
    }

    /// Returns a token that is cancelled when every partition is being read: from then on the consumer's
    /// start delays no record.
    pub(super) fn ready(&self) -> CancellationToken {
        self.ready.clone()
    }

    /// Reads until it is stopped. Blocks: librdkafka has threads, no futures.
    pub(super) fn run(&self, stop: &CancellationToken) {
        let mut read = HashSet::new();
        while !stop.is_cancelled() {
            match self.inner.poll(POLL_TIME_MAX) {
                None => {}
                Some(Ok(message)) => self.take(&message),
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    read.insert(partition);
                    if i32::try_from(read.len()) == Ok(PARTITION_COUNT) {
                        self.ready.cancel();
                    }
                }
                // Missing records are in the summary.
                Some(Err(error)) => tracing::debug!(%error, "the consumer had trouble"),
            }
        }
    }

    fn take(&self, message: &BorrowedMessage<'_>) {
        let headers = headers(message);
        let id = headers.iter().find(|(name, _)| name == "id").map_or("", |(_, value)| value);
        let latency = match self.book.arrives(id, Instant::now()) {
            Arrival::Awaited(latency) => Some(latency),
            Arrival::Repeated | Arrival::Foreign | Arrival::Impossible => None,
        };
        let (key, value) = (text(message.key()), text(message.payload()));
        self.screen.record(&Record {
            topic: message.topic(),
            partition: message.partition(),
            offset: message.offset(),
            key: &key,
            headers: &headers,
            value: &value,
            latency,
        });
    }
}

fn headers(message: &BorrowedMessage<'_>) -> Vec<(String, String)> {
    rdkafka_gaps::headers::of(message).map(|header| (header.key.to_owned(), text(header.value))).collect()
}

fn text(bytes: Option<&[u8]>) -> String {
    bytes.map_or_else(|| "null".to_owned(), |bytes| String::from_utf8_lossy(bytes).into_owned())
}
