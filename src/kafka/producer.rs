use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, PurgeConfig, ThreadedProducer};

use super::delivery::{Deliveries, Rejection};
use super::{Error, Options};
use crate::ack::Ticket;
use crate::connect::record::ProducerRecord;

/// What the guarantees rest on; nothing in the configuration overrides it.
const GUARANTEES: [(&str, &str); 8] = [
    ("acks", "all"),
    ("enable.idempotence", "true"),
    // A refused record stops the producer before anything behind it is written.
    ("enable.gapless.guarantee", "true"),
    ("max.in.flight", "5"),
    // No finite give-up: a record that timed out would leave a gap that later ones are written past.
    ("message.timeout.ms", "0"),
    // The Java client's partitioner.
    ("partitioner", "murmur2_random"),
    // The in-flight window is the limit: librdkafka's queue must never be the one that is full.
    ("queue.buffering.max.messages", "0"),
    ("queue.buffering.max.kbytes", "2147483647"),
];

/// Where librdkafka's defaults do not suit us; the configuration may say otherwise.
const DEFAULTS: [(&str, &str); 6] = [
    ("client.id", "outboxd"),
    ("linger.ms", "0"),
    // The broker's limit decides, not the client's.
    ("message.max.bytes", "104857600"),
    ("reconnect.backoff.max.ms", "5000"),
    ("socket.keepalive.enable", "true"),
    ("topic.metadata.propagation.max.ms", "10000"),
];

/// The idempotent producer. It lives as long as the process; sessions with PostgreSQL come and go.
pub struct Producer {
    inner: ThreadedProducer<Deliveries>,
    deliveries: Deliveries,
}

impl Producer {
    /// Sets up the producer; brokers are connected in the background.
    ///
    /// # Errors
    /// When librdkafka refuses a setting.
    pub fn new(options: &Options) -> Result<Self, Error> {
        let deliveries = Deliveries::default();
        let inner =
            client_config(options).create_with_context(deliveries.clone()).map_err(Error::Settings)?;
        Ok(Self { inner, deliveries })
    }

    /// Waits until a broker has answered.
    ///
    /// # Errors
    /// When none has within the time-out; the reason is librdkafka's last word.
    pub fn await_broker(&self, options: &Options, patience: Duration) -> Result<String, Error> {
        self.inner.client().fetch_cluster_id(patience).ok_or_else(|| Error::Unreachable {
            servers: options.bootstrap_servers.clone(),
            seconds: patience.as_secs(),
            reason: self.deliveries.trouble().unwrap_or_else(|| "no broker answers".to_owned()),
        })
    }

    /// After connection trouble: asks the brokers whether they are back. Idle, librdkafka would not notice for minutes.
    /// Blocks for `patience` at most.
    pub fn ask_again(&self, patience: Duration) {
        if self.deliveries.trouble().is_some() && self.inner.client().fetch_metadata(None, patience).is_ok() {
            self.deliveries.clear_trouble();
        }
    }

    /// The delivery reports of this producer.
    #[must_use]
    pub const fn deliveries(&self) -> &Deliveries {
        &self.deliveries
    }

    /// Hands a record over; librdkafka copies it.
    ///
    /// # Errors
    /// When the record can never be sent.
    pub fn send(&self, record: &ProducerRecord<'_>, ticket: Ticket) -> Result<(), Rejection> {
        let mut message: BaseRecord<'_, [u8], [u8], usize> =
            BaseRecord::with_opaque_to(record.topic, ticket.0);
        message.key = record.key;
        message.payload = record.value;
        message.partition = record.partition;
        message.timestamp = Some(record.timestamp_ms);
        if !record.headers.is_empty() {
            message.headers = Some(headers(record));
        }
        self.inner.send(message).map_err(|(error, _)| Rejection::new(ticket, record.topic, &error))
    }

    /// Drops everything that is not acknowledged: it will come again from the slot.
    pub fn purge(&self) {
        self.inner.purge(PurgeConfig::default().queue().inflight());
    }
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Producer")
    }
}

fn client_config(options: &Options) -> ClientConfig {
    let mut config = ClientConfig::new();
    for (key, value) in DEFAULTS {
        config.set(key, value);
    }
    for (key, value) in &options.properties {
        config.set(key, value.expose());
    }
    for (key, value) in GUARANTEES {
        config.set(key, value);
    }
    config.set("bootstrap.servers", &options.bootstrap_servers);
    config
}

fn headers(record: &ProducerRecord<'_>) -> OwnedHeaders {
    record.headers.iter().fold(OwnedHeaders::new_with_capacity(record.headers.len()), |headers, header| {
        headers.insert(Header { key: header.name, value: header.value })
    })
}
