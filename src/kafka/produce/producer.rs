//! The idempotent producer and its renewal; it outlives the sessions.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, PurgeConfig};
use rdkafka_gaps::login::set_password;
use tokio_util::sync::CancellationToken;

use super::clients::{Clients, TransactionSettings};
use super::delivery::Deliveries;
use super::pace::Pace;
use super::rejection::Rejection;
use crate::ack::Ticket;
use crate::connect::record::ProducerRecord;
use crate::kafka::error::Error;
use crate::kafka::login::Login;
use crate::kafka::options::Options;
use crate::kafka::topics::topic_probe::TopicProbe;
use crate::kafka::transactional::open_transactions::OpenTransactions;
use crate::kafka::transactional::transactions::{Transaction, Worker};

/// The idempotent producer. It lives as long as the process; sessions with PostgreSQL begin and end.
pub struct Producer {
    options: Options,
    /// Replaced by [`Self::renew`] only.
    clients: RwLock<Arc<Clients>>,
    deliveries: Deliveries,
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

    /// Restarts with another producer id, for a producer whose reports cannot be relied on any more. Nothing
    /// may be in flight. Blocks until the old one has ended.
    ///
    /// # Errors
    /// When librdkafka cannot create another one.
    pub fn renew(&self) -> Result<(), Error> {
        self.replace()?.end();
        Ok(())
    }

    /// Does the same as [`Self::renew`] for a caller that still has an [`Inlet`] of the old one: nothing may
    /// be sent until that one has ended and [`Replaced::end`] is done.
    ///
    /// # Errors
    /// When librdkafka cannot create another one.
    pub(crate) fn replace(&self) -> Result<Replaced, Error> {
        let clients = Arc::new(Clients::new(&self.options, &self.deliveries)?);
        let mut current = self.clients.write().unwrap_or_else(PoisonError::into_inner);
        let clients = std::mem::replace(&mut *current, clients);
        Ok(Replaced { clients, deliveries: self.deliveries.clone() })
    }

    /// Restarts as the one producer of a transactional id, with a transaction open. The producer that had the
    /// id before can commit nothing more. Nothing may be in flight. Blocks for `patience` at most, or until
    /// `stop`.
    ///
    /// # Errors
    /// When the brokers do not assign the id.
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
        // All delivery reports of the old producer have been collected.
        self.deliveries.discard_reports();
        Transaction { clients: &clients, settings, stop }.take_over(patience)?;
        self.deliveries.has_begun();
        Ok(())
    }

    /// Waits until a broker has answered.
    ///
    /// # Errors
    /// When none has within the time-out; the reason is librdkafka's last message.
    pub fn await_broker(&self, options: &Options, patience: Duration) -> Result<String, Error> {
        self.clients().prompt.client().fetch_cluster_id(patience).ok_or_else(|| {
            let trouble = self.deliveries.trouble();
            self.replace_refused_token(trouble.as_deref());
            Error::Unreachable {
                servers: options.bootstrap_servers.clone(),
                seconds: patience.as_secs(),
                reason: trouble.unwrap_or_else(|| "no broker answers".to_owned()),
            }
        })
    }

    /// Probes the brokers after connection trouble. Idle, librdkafka would not notice their return for
    /// minutes. Blocks for `patience` at most.
    pub fn ask_again(&self, patience: Duration) {
        let Some(trouble) = self.deliveries.trouble() else { return };
        self.replace_refused_token(Some(&trouble));
        if self.clients().prompt.client().fetch_metadata(None, patience).is_ok() {
            self.deliveries.clear_trouble();
        }
    }

    /// Asks for another token after a refused login. librdkafka uses it for its next attempts.
    fn replace_refused_token(&self, trouble: Option<&str>) {
        if let (Some(tokens), true) = (&self.options.tokens, trouble.is_some_and(refuses_login)) {
            tokens.refuse();
        }
    }

    /// Sets the password of a login for connections that its clients open from now on.
    pub(crate) fn use_password(&self, login: &Login) {
        let (Some(user), Some(password)) = (login.get("sasl.username"), login.get("sasl.password")) else {
            return;
        };
        let clients = self.clients();
        for producer in [Some(&clients.prompt), clients.bulk.as_ref()].into_iter().flatten() {
            if let Err(error) = set_password(producer.client(), user.expose(), password.expose()) {
                tracing::warn!(component = "kafka", %error, "the changed password of Kafka");
            }
        }
    }

    /// Returns a probe of a topic, as the producer sees it.
    #[must_use]
    pub fn topic_probe(&self, topic: &str) -> TopicProbe {
        TopicProbe::new(self.clients(), topic)
    }

    /// Returns the transactions that may be undecided in these topics.
    #[must_use]
    pub fn open_transactions(&self, topics: Vec<String>) -> OpenTransactions {
        OpenTransactions::of(self.clients(), self.deliveries.clone(), topics)
    }

    /// Returns the delivery reports of this producer.
    #[must_use]
    pub const fn deliveries(&self) -> &Deliveries {
        &self.deliveries
    }

    /// Returns the inlet of records, which is valid until [`Self::renew`].
    #[must_use]
    pub fn inlet(&self) -> Inlet {
        let (clients, deliveries) = (self.clients(), self.deliveries.clone());
        let settings = clients.transactions.as_ref().map(|transactions| transactions.settings.clone());
        let worker = settings.map(|settings| Worker::new(Arc::clone(&clients), settings, deliveries.clone()));
        Inlet { clients, deliveries, worker }
    }

    /// Drops everything that is not acknowledged: it will be read again from the slot.
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

/// A producer that another has followed.
pub(crate) struct Replaced {
    clients: Arc<Clients>,
    deliveries: Deliveries,
}

impl Replaced {
    /// Ends it. Blocks until it has ended.
    pub(crate) fn end(self) {
        drop(self.clients);
        self.deliveries.discard_reports();
    }
}

/// Inlet of records.
pub struct Inlet {
    clients: Arc<Clients>,
    deliveries: Deliveries,
    /// Worker that commits and aborts transactions, if there are any.
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

    pub(in crate::kafka) const fn deliveries(&self) -> &Deliveries {
        &self.deliveries
    }

    pub(in crate::kafka) fn follows_load(&self) -> bool {
        self.clients.bulk.is_some()
    }

    pub(in crate::kafka) const fn is_transactional(&self) -> bool {
        self.worker.is_some()
    }

    pub(in crate::kafka) fn commit(&mut self) {
        if let Some(worker) = &mut self.worker {
            worker.commit();
        }
    }

    pub(in crate::kafka) fn abort(&mut self) {
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

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Producer")
    }
}

fn headers(record: &ProducerRecord<'_>) -> OwnedHeaders {
    let count = record.headers.len().saturating_add(usize::from(record.position.is_some()));
    record.all_headers().fold(OwnedHeaders::new_with_capacity(count), |headers, header| {
        headers.insert(Header { key: header.name, value: header.value })
    })
}

/// Returns whether this trouble is a login that brokers refuse.
fn refuses_login(trouble: &str) -> bool {
    trouble.to_ascii_lowercase().contains("authentication")
}
