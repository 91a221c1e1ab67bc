use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, PurgeConfig};
use tokio_util::sync::CancellationToken;

use super::clients::{Clients, TransactionSettings};
use super::delivery::Deliveries;
use super::error::Error;
use super::open_transactions::OpenTransactions;
use super::options::Options;
use super::pace::Pace;
use super::rejection::Rejection;
use super::topic_probe::TopicProbe;
use super::transactions::{Transaction, Worker};
use crate::ack::Ticket;
use crate::connect::record::ProducerRecord;

/// The idempotent producer. It lives as long as the process; sessions with PostgreSQL come and go.
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

    /// Begins anew, with another producer id: for one whose word can no longer be relied on. Nothing may be on its way.
    /// Blocks until the old one is gone.
    ///
    /// # Errors
    /// When librdkafka cannot make another.
    pub fn renew(&self) -> Result<(), Error> {
        self.replace()?.end();
        Ok(())
    }

    /// As [`Self::renew`], for who has an [`Inlet`] of the old one yet: nothing may be sent until that is gone and
    /// [`Replaced::end`] is done.
    ///
    /// # Errors
    /// When librdkafka cannot make another.
    pub(crate) fn replace(&self) -> Result<Replaced, Error> {
        let clients = Arc::new(Clients::new(&self.options, &self.deliveries)?);
        let mut current = self.clients.write().unwrap_or_else(PoisonError::into_inner);
        let clients = std::mem::replace(&mut *current, clients);
        Ok(Replaced { clients, deliveries: self.deliveries.clone() })
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

/// A producer that another has followed.
pub(crate) struct Replaced {
    clients: Arc<Clients>,
    deliveries: Deliveries,
}

impl Replaced {
    /// Ends it. Blocks until it is gone.
    pub(crate) fn end(self) {
        drop(self.clients);
        self.deliveries.begin_anew();
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

    pub(super) const fn is_transactional(&self) -> bool {
        self.worker.is_some()
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
