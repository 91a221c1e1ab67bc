use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, PurgeConfig, ThreadedProducer};
use tokio_util::sync::CancellationToken;

use super::delivery::{Deliveries, Rejection};
use super::open_transactions::OpenTransactions;
use super::pace::Pace;
use super::stable_ends::StableEnds;
use super::topic_probe::TopicProbe;
use super::transactions::{Transaction, TransactionSettings, Worker};
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
    // The broker's limit decides, not the client's.
    ("message.max.bytes", "104857600"),
    // Half of it is also what the second connection of a start waits for.
    ("reconnect.backoff.ms", "20"),
    ("reconnect.backoff.max.ms", "5000"),
    ("socket.keepalive.enable", "true"),
    ("topic.metadata.propagation.max.ms", "10000"),
];

/// `linger.ms` of the two producers, unless the configuration sets one.
const PROMPT_LINGER_MS: &str = "0";
const BULK_LINGER_MS: &str = "1";

/// A transaction's commit waits for its records.
const TRANSACTIONAL_LINGER_MS: &str = "1";

/// What the first record of a partition waits for when the brokers have not done with the last transaction there.
const TRANSACTIONAL_RETRY_MS: &str = "5";

/// What the configuration may call it.
const LINGER_NAMES: [&str; 2] = ["linger.ms", "queue.buffering.max.ms"];

/// The idempotent producer. It lives as long as the process; sessions with PostgreSQL come and go.
pub struct Producer {
    options: Options,
    /// Replaced by [`Self::renew`] only.
    clients: RwLock<Arc<Clients>>,
    deliveries: Deliveries,
}

/// librdkafka's `linger.ms` is fixed for a producer's life: 0 has the least latency, and many small requests under
/// load. So there are two producers, and the load decides which one is used. They change only while nothing is in
/// flight, so that one key's records never overtake each other.
pub(super) struct Clients {
    prompt: ThreadedProducer<Deliveries>,
    /// Absent when the configuration sets `linger.ms`.
    bulk: Option<ThreadedProducer<Deliveries>>,
    /// It sends in transactions; then there is no other.
    transactions: Option<Transactional>,
}

struct Transactional {
    settings: TransactionSettings,
    ends: StableEnds,
}

impl Producer {
    /// Sets up the producer; brokers are connected in the background.
    ///
    /// # Errors
    /// When librdkafka refuses a setting.
    pub fn new(options: &Options) -> Result<Self, Error> {
        let deliveries = Deliveries::default();
        let clients = Clients::new(options, &deliveries)?;
        let clients = RwLock::new(Arc::new(clients));
        Ok(Self { options: options.clone(), clients, deliveries })
    }

    /// Begins anew, with another producer id: for one whose word can no longer be relied on. Nothing may be on its way.
    /// Blocks until the old one is gone.
    ///
    /// # Errors
    /// When librdkafka cannot make another.
    pub fn renew(&self) -> Result<(), Error> {
        let clients = Arc::new(Clients::new(&self.options, &self.deliveries)?);
        let mut current = self.clients.write().unwrap_or_else(PoisonError::into_inner);
        drop(std::mem::replace(&mut *current, clients));
        self.deliveries.begin_anew();
        Ok(())
    }

    /// Begins anew as the one producer of a transactional id, with a transaction open. Whoever had the id before can commit
    /// nothing more. Nothing may be on its way. Blocks for `patience` at most, or until nobody waits any more.
    ///
    /// # Errors
    /// When the brokers do not give the id.
    pub fn begin_transactions(
        &self,
        settings: &TransactionSettings,
        patience: Duration,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let clients = Arc::new(Clients::transactional(&self.options, &self.deliveries, settings)?);
        let old = {
            let mut current = self.clients.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, Arc::clone(&clients))
        };
        drop(old);
        // What the old one had to say to the last was heard.
        self.deliveries.begin_anew();
        Transaction { clients: &clients, settings, stop }.take_over(patience)?;
        self.deliveries.has_begun();
        Ok(())
    }

    /// Waits until a broker has answered.
    ///
    /// # Errors
    /// When none has within the time-out; the reason is librdkafka's last word.
    pub fn await_broker(&self, options: &Options, patience: Duration) -> Result<String, Error> {
        self.clients().prompt.client().fetch_cluster_id(patience).ok_or_else(|| Error::Unreachable {
            servers: options.bootstrap_servers.clone(),
            seconds: patience.as_secs(),
            reason: self.deliveries.trouble().unwrap_or_else(|| "no broker answers".to_owned()),
        })
    }

    /// After connection trouble: asks the brokers whether they are back. Idle, librdkafka would not notice for minutes.
    /// Blocks for `patience` at most.
    pub fn ask_again(&self, patience: Duration) {
        if self.deliveries.trouble().is_some()
            && self.clients().prompt.client().fetch_metadata(None, patience).is_ok()
        {
            self.deliveries.clear_trouble();
        }
    }

    /// To ask about a topic, as the producer sees it.
    #[must_use]
    pub fn topic_probe(&self, topic: &str) -> TopicProbe {
        TopicProbe::new(self.clients(), topic)
    }

    /// What may be undecided in these topics.
    #[must_use]
    pub fn open_transactions(&self, topics: Vec<String>) -> OpenTransactions {
        OpenTransactions::of(self.clients(), self.deliveries.clone(), topics)
    }

    /// The delivery reports of this producer.
    #[must_use]
    pub const fn deliveries(&self) -> &Deliveries {
        &self.deliveries
    }

    /// Where records go in, until [`Self::renew`].
    #[must_use]
    pub fn inlet(&self) -> Inlet {
        let (clients, deliveries) = (self.clients(), self.deliveries.clone());
        let settings = clients.transactions.as_ref().map(|transactions| transactions.settings.clone());
        let worker = settings.map(|settings| Worker::new(Arc::clone(&clients), settings, deliveries.clone()));
        Inlet { clients, deliveries, worker }
    }

    /// Drops everything that is not acknowledged: it will come again from the slot.
    pub fn purge(&self) {
        let clients = self.clients();
        for producer in [Some(&clients.prompt), clients.bulk.as_ref()].into_iter().flatten() {
            producer.purge(PurgeConfig::default().queue().inflight());
        }
    }

    fn clients(&self) -> Arc<Clients> {
        Arc::clone(&self.clients.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Where records go in.
pub struct Inlet {
    clients: Arc<Clients>,
    deliveries: Deliveries,
    /// It commits and aborts transactions, if there are any.
    worker: Option<Worker>,
}

impl Inlet {
    /// Hands a record over; librdkafka copies it.
    ///
    /// # Errors
    /// When the record can never be sent.
    pub fn send(&self, record: &ProducerRecord<'_>, ticket: Ticket, pace: Pace) -> Result<(), Rejection> {
        let mut message: BaseRecord<'_, [u8], [u8], usize> =
            BaseRecord::with_opaque_to(record.topic, ticket.0);
        message.key = record.key;
        message.payload = record.value;
        message.partition = record.partition;
        message.timestamp = Some(record.timestamp_ms);
        if !record.headers.is_empty() || record.position.is_some() {
            message.headers = Some(headers(record));
        }
        let producer = match (pace, &self.clients.bulk) {
            (Pace::Bulk, Some(bulk)) => bulk,
            _ => &self.clients.prompt,
        };
        producer.send(message).map_err(|(error, _)| Rejection::new(ticket, record, &error))
    }

    pub(super) const fn deliveries(&self) -> &Deliveries {
        &self.deliveries
    }

    pub(super) fn follows_load(&self) -> bool {
        self.clients.bulk.is_some()
    }

    pub(super) fn commit(&mut self) {
        if let Some(worker) = &mut self.worker {
            worker.commit();
        }
    }

    pub(super) fn abort(&mut self) {
        if let Some(worker) = &mut self.worker {
            worker.abort();
        }
    }
}

impl std::fmt::Debug for Inlet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Inlet")
    }
}

impl Clients {
    /// The one that is there with every configuration.
    pub(super) const fn prompt(&self) -> &ThreadedProducer<Deliveries> {
        &self.prompt
    }

    /// With transactions: to ask what is decided.
    pub(super) fn stable_ends(&self) -> Option<&StableEnds> {
        Some(&self.transactions.as_ref()?.ends)
    }

    fn new(options: &Options, deliveries: &Deliveries) -> Result<Self, Error> {
        let create =
            |config: ClientConfig| config.create_with_context(deliveries.clone()).map_err(Error::Settings);
        let with_linger = |linger_ms: &str| {
            let mut config = client_config(options);
            config.set("linger.ms", linger_ms);
            config
        };
        if options.properties.iter().any(|(key, _)| LINGER_NAMES.contains(&key.as_str())) {
            return Ok(Self { prompt: create(client_config(options))?, bulk: None, transactions: None });
        }
        let bulk = Some(create(with_linger(BULK_LINGER_MS))?);
        Ok(Self { prompt: create(with_linger(PROMPT_LINGER_MS))?, bulk, transactions: None })
    }

    fn transactional(
        options: &Options,
        deliveries: &Deliveries,
        settings: &TransactionSettings,
    ) -> Result<Self, Error> {
        let mut config = client_config(options);
        let says = |name: &str| options.properties.iter().any(|(key, _)| key == name);
        if !LINGER_NAMES.iter().any(|name| says(name)) {
            config.set("linger.ms", TRANSACTIONAL_LINGER_MS);
        }
        if !says("retry.backoff.ms") {
            config.set("retry.backoff.ms", TRANSACTIONAL_RETRY_MS);
        }
        // A record that fails fails its transaction.
        config.set("enable.gapless.guarantee", "false");
        // At this level it tells of each connection that breaks.
        config.set("log.connection.close", "true").set_log_level(RDKafkaLogLevel::Info);
        config.set("transactional.id", &settings.id);
        config.set("transaction.timeout.ms", settings.timeout.as_millis().to_string());
        let prompt = config.create_with_context(deliveries.clone()).map_err(Error::Settings)?;
        let ends = StableEnds::new(options)?;
        let transactions = Some(Transactional { settings: settings.clone(), ends });
        Ok(Self { prompt, bulk: None, transactions })
    }
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Producer")
    }
}

/// How librdkafka is set up.
pub(super) fn client_config(options: &Options) -> ClientConfig {
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
    let count = record.headers.len().saturating_add(usize::from(record.position.is_some()));
    record.all_headers().fold(OwnedHeaders::new_with_capacity(count), |headers, header| {
        headers.insert(Header { key: header.name, value: header.value })
    })
}
