//! The producer of stored values. Each value has a report of its own, and waits for no event.

use std::sync::{Mutex, PoisonError};

use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseRecord, DeliveryResult, NoCustomPartitioner, ProducerContext};
use tokio::sync::oneshot;

use crate::kafka::client_config::client_config;
use crate::kafka::error::Error;
use crate::kafka::options::Options;
use crate::kafka::produce::delivery::Deliveries;
use crate::kafka::produce::polled_producer::PolledProducer;
use crate::kafka::token_callback;

/// Receiver of a report: an error, or none when the brokers have the value.
pub(super) type Report = oneshot::Receiver<Option<KafkaError>>;

/// A producer of values, which is replaced once the login has changed.
pub(super) struct ValueProducer {
    options: Options,
    settings: Vec<(&'static str, String)>,
    /// Notified of each report.
    wake: Option<Deliveries>,
    current: Mutex<Current>,
}

struct Current {
    producer: PolledProducer<Reports>,
    /// Changes of the login until its creation.
    login_changes: u64,
}

impl ValueProducer {
    /// Creates the producer, with settings besides those of the options.
    ///
    /// # Errors
    /// When librdkafka refuses a setting.
    pub(super) fn new(
        options: &Options,
        settings: Vec<(&'static str, String)>,
        wake: Option<Deliveries>,
    ) -> Result<Self, Error> {
        let current = Mutex::new(Current::new(options, &settings, wake.as_ref())?);
        Ok(Self { options: options.clone(), settings, wake, current })
    }

    /// Hands a value over. It blocks only to replace the producer, for about a tenth of a second.
    ///
    /// # Errors
    /// When it can never be sent.
    pub(super) fn send(
        &self,
        topic: &str,
        partition: Option<i32>,
        key: &[u8],
        value: &[u8],
    ) -> Result<Report, KafkaError> {
        let (report, receiver) = oneshot::channel();
        let mut record = BaseRecord::with_opaque_to(topic, Box::new(report)).key(key).payload(value);
        record.partition = partition;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.login_changes != self.options.login_changes() {
            match Current::new(&self.options, &self.settings, self.wake.as_ref()) {
                Ok(next) => *current = next,
                Err(error) => tracing::warn!(
                    component = "kafka",
                    error = crate::error::chain(&error),
                    topic,
                    "the changed login cannot be used; the last one still is"
                ),
            }
        }
        current.producer.send(record).map(|()| receiver).map_err(|(error, _)| error)
    }
}

impl Current {
    fn new(
        options: &Options,
        settings: &[(&'static str, String)],
        wake: Option<&Deliveries>,
    ) -> Result<Self, Error> {
        let login_changes = options.login_changes();
        let mut config = client_config(options);
        for (key, value) in settings {
            config.set(*key, value);
        }
        let reports = Reports { wake: wake.cloned() };
        let producer = config.create_with_context(reports).map_err(Error::settings)?;
        Ok(Self { producer, login_changes })
    }
}

/// Passes each delivery report to its waiting caller.
struct Reports {
    wake: Option<Deliveries>,
}

impl ClientContext for Reports {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, property: Option<&str>) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        token_callback::token(property)
    }
}

impl ProducerContext<NoCustomPartitioner> for Reports {
    type DeliveryOpaque = Box<oneshot::Sender<Option<KafkaError>>>;

    fn delivery(&self, result: &DeliveryResult<'_>, report: Self::DeliveryOpaque) {
        let error = result.as_ref().err().map(|(error, _)| error.clone());
        // The receiver is dropped after the timeout, or when the session ends.
        report.send(error).ok();
        if let Some(wake) = &self.wake {
            wake.0.arrived.notify_one();
        }
    }
}
