//! librdkafka's producers: a prompt one and one for bulk, or one with transactions.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;

use super::delivery::Deliveries;
use super::polled_producer::PolledProducer;
use crate::kafka::client_config::client_config;
use crate::kafka::consume::stable_ends::StableEnds;
use crate::kafka::error::Error;
use crate::kafka::options::Options;
use crate::kafka::stores::state_topic::StateTopic;

/// `linger.ms` of the two producers, unless the configuration sets one.
const PROMPT_LINGER_MS: &str = "0";
const BULK_LINGER_MS: &str = "1";

/// A transaction's commit waits for its records.
const TRANSACTIONAL_LINGER_MS: &str = "1";

/// Wait of a partition's first record when the brokers have not finished the last transaction there.
const TRANSACTIONAL_RETRY_MS: &str = "5";

/// Names of the setting in the configuration.
const LINGER_NAMES: [&str; 2] = ["linger.ms", "queue.buffering.max.ms"];

/// A producer of transactions.
#[derive(Debug, Clone)]
pub struct TransactionSettings {
    /// `transactional.id`: of all that have it, one can commit.
    pub id: String,
    /// `transaction.timeout.ms`: timeout of an open transaction at the brokers, and of our wait for their answers.
    pub timeout: Duration,
    /// Storage of the transactions' state, if there is one: the topic, and the key in it.
    pub state: Option<(StateTopic, String)>,
}

/// librdkafka's `linger.ms` is fixed for a producer's life: 0 has the least latency, and many small requests under
/// load. So there are two producers, and the load decides which one is used. They change only while nothing is in
/// flight, so that one key's records never overtake each other.
pub(in crate::kafka) struct Clients {
    pub(in crate::kafka) prompt: PolledProducer<Deliveries>,
    /// Absent when the configuration sets `linger.ms`.
    pub(in crate::kafka) bulk: Option<PolledProducer<Deliveries>>,
    /// Sender with transactions; then there is no other.
    pub(in crate::kafka) transactions: Option<Transactional>,
}

pub(in crate::kafka) struct Transactional {
    pub(in crate::kafka) settings: TransactionSettings,
    ends: StableEnds,
}

impl Clients {
    /// Returns the one that exists in every configuration.
    pub(in crate::kafka) const fn prompt(&self) -> &PolledProducer<Deliveries> {
        &self.prompt
    }

    /// Returns, with transactions, the reader of decided records.
    pub(in crate::kafka) fn stable_ends(&self) -> Option<&StableEnds> {
        Some(&self.transactions.as_ref()?.ends)
    }

    pub(in crate::kafka) fn new(options: &Options, deliveries: &Deliveries) -> Result<Self, Error> {
        let create =
            |config: ClientConfig| config.create_with_context(deliveries.clone()).map_err(Error::settings);
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

    pub(in crate::kafka) fn transactional(
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
        // At this level it logs each connection that breaks.
        config.set("log.connection.close", "true").set_log_level(RDKafkaLogLevel::Info);
        config.set("transactional.id", &settings.id);
        let timeout_ms = settings.timeout.as_millis().to_string();
        config.set("transaction.timeout.ms", timeout_ms.as_str());
        // librdkafka retains a record of a deleted partition up to its timeout: after this one the brokers abort it anyway.
        config.set("message.timeout.ms", timeout_ms);
        let prompt = config.create_with_context(deliveries.clone()).map_err(Error::settings)?;
        let ends = StableEnds::new(options)?;
        let transactions = Some(Transactional { settings: settings.clone(), ends });
        Ok(Self { prompt, bulk: None, transactions })
    }
}
