//! A blocking producer for commands: its records are visible all together or not at all.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer as _, ProducerContext};
use tokio_util::sync::CancellationToken;

use super::transaction_fault::TransactionFault;
use crate::connect::record::ProducerRecord;
use crate::kafka::client_config::client_config;
use crate::kafka::error::Error;
use crate::kafka::options::Options;
use crate::kafka::produce::fault::Fault;
use crate::kafka::produce::polled_producer::PolledProducer;
use crate::kafka::token_callback;

/// Time that a call may block before it checks whether its result is still needed. Each can be resumed.
const SLICE: Duration = Duration::from_millis(500);

/// `transaction.timeout.ms`: the maximum time for which a killed sender hides the records after its own.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(20);

/// A producer whose records are visible all together or not at all. One at a time: it blocks.
pub(crate) struct TransactionalSender {
    producer: PolledProducer<Refusals>,
    id: String,
}

/// End of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Committed: its records are visible.
    Committed,
    /// Aborted: the brokers refused one of its records, or its batch, for good.
    Refused(String),
    /// Aborted for no fault of its records: librdkafka gave them up together with a transaction before, in
    /// which a record was refused. It can be tried again.
    GivenUp,
}

/// Reasons why a record of the open transaction was not accepted.
#[derive(Clone, Default)]
struct Refusals(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    /// The number of the transaction. Records of the one before may be reported late.
    transaction: usize,
    error: Option<KafkaError>,
}

impl Refusals {
    fn begin(&self) {
        let mut kept = self.lock();
        *kept = Kept { transaction: kept.transaction.wrapping_add(1), error: None };
    }

    /// Stores the error of a transaction. With a record that is refused, librdkafka gives up all that wait;
    /// so an error of a record takes precedence.
    fn keep(&self, transaction: usize, error: KafkaError) {
        let mut kept = self.lock();
        if transaction == kept.transaction && !kept.error.as_ref().is_some_and(is_refusal) {
            kept.error = Some(error);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Refusals {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, property: Option<&str>) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        token_callback::token(property)
    }
}

impl ProducerContext for Refusals {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, transaction: usize) {
        if let Err((error, _)) = result {
            self.keep(transaction, error.clone());
        }
    }
}

impl TransactionalSender {
    /// Takes the id over: the open transaction of its previous producer is aborted, and that can commit
    /// nothing more. Afterwards all of its transactions are decided. Blocks for `patience` at most.
    ///
    /// # Errors
    /// When the brokers do not assign the id.
    pub(crate) fn begin(
        options: &Options,
        id: String,
        patience: Duration,
        stop: &CancellationToken,
    ) -> Result<Self, Error> {
        let mut config = client_config(options);
        // A record that fails fails its transaction.
        config.set("enable.gapless.guarantee", "false");
        config.set("transactional.id", &id);
        let timeout_ms = TRANSACTION_TIMEOUT.as_millis().to_string();
        config.set("transaction.timeout.ms", timeout_ms.as_str());
        config.set("message.timeout.ms", timeout_ms);
        let producer = config.create_with_context(Refusals::default()).map_err(Error::settings)?;
        let sender = Self { producer, id };
        let taken = sender.insist(patience, stop, |producer| producer.init_transactions(SLICE));
        taken.map_err(|error| sender.failed("begun", &error))?;
        Ok(sender)
    }

    /// Opens a transaction.
    ///
    /// # Errors
    /// When there can be none any more.
    pub(crate) fn open(&self) -> Result<(), Error> {
        self.producer.context().begin();
        self.producer.begin_transaction().map_err(|error| self.failed("begun", &error))
    }

    /// Hands a record over. Its error is returned by [`Self::commit`].
    pub(crate) fn send(&self, record: &ProducerRecord<'_>) {
        let headers = OwnedHeaders::new_with_capacity(record.headers.len());
        let headers = record.all_headers().fold(headers, |headers, header| {
            headers.insert(Header { key: header.name, value: header.value })
        });
        let transaction = self.producer.context().lock().transaction;
        let mut message: BaseRecord<'_, [u8], [u8], usize> =
            BaseRecord::with_opaque_to(record.topic, transaction).headers(headers);
        message.key = record.key;
        message.payload = record.value;
        message.partition = record.partition;
        message.timestamp = Some(record.timestamp_ms);
        if let Err((error, _)) = self.producer.send(message) {
            self.producer.context().keep(transaction, error);
        }
    }

    /// Ends the transaction. It is aborted if one of its records was not accepted. Blocks for the transaction's time-out at most.
    ///
    /// # Errors
    /// When its outcome is unknown, or no further transaction is possible.
    pub(crate) fn commit(&self) -> Result<Ended, Error> {
        let refusals = self.producer.context();
        // A record that librdkafka did not accept is not in its transaction, and would not fail it.
        let flushed = self.insist_to_the_end(|producer| producer.flush(SLICE));
        let committed = match (flushed, refusals.lock().error.clone()) {
            (Ok(()), None) => self.insist_to_the_end(|producer| producer.commit_transaction(SLICE)),
            (Ok(()), Some(error)) | (Err(error), _) => Err(error),
        };
        let Err(error) = committed else { return Ok(Ended::Committed) };
        let ended = match refusals.lock().error.take() {
            Some(refused) if is_refusal(&refused) => Ended::Refused(refused.to_string()),
            Some(purged) if is_purge(&purged) => Ended::GivenUp,
            _ => return Err(self.failed("committed", &error)),
        };
        self.abort()?;
        Ok(ended)
    }

    fn abort(&self) -> Result<(), Error> {
        let aborted = self.insist_to_the_end(|producer| producer.abort_transaction(SLICE));
        aborted.map_err(|error| self.failed("aborted", &error))
    }

    /// Repeats a call at the end of a transaction, which is not interrupted.
    fn insist_to_the_end(
        &self,
        call: impl Fn(&PolledProducer<Refusals>) -> KafkaResult<()>,
    ) -> KafkaResult<()> {
        self.insist(TRANSACTION_TIMEOUT, &CancellationToken::new(), call)
    }

    /// Repeats a call until there is an answer, the time is over, or `stop`.
    fn insist(
        &self,
        patience: Duration,
        stop: &CancellationToken,
        call: impl Fn(&PolledProducer<Refusals>) -> KafkaResult<()>,
    ) -> KafkaResult<()> {
        let deadline = Instant::now() + patience;
        loop {
            let Err(error) = call(&self.producer) else { return Ok(()) };
            let again = matches!(&error, KafkaError::Transaction(error) if error.is_retriable())
                || error.rdkafka_error_code() == Some(Code::OperationTimedOut);
            if !again || stop.is_cancelled() || Instant::now() >= deadline {
                return Err(error);
            }
        }
    }

    fn failed(&self, doing: &'static str, error: &KafkaError) -> Error {
        let fatal = self.producer.client().fatal_error();
        let code = fatal.as_ref().map(|(code, _)| *code).or_else(|| error.rdkafka_error_code());
        let fault = TransactionFault::of(code.unwrap_or(Code::Unknown));
        let reason = fatal.map_or_else(|| error.to_string(), |(_, reason)| reason);
        Error::Transaction { fault, doing, id: self.id.clone(), reason }
    }
}

/// Returns whether it concerns the record, and not the connection or the transaction.
fn is_refusal(error: &KafkaError) -> bool {
    error.rdkafka_error_code().is_some_and(|code| Fault::of(code).is_some())
}

fn is_purge(error: &KafkaError) -> bool {
    matches!(error.rdkafka_error_code(), Some(Code::PurgeQueue | Code::PurgeInflight))
}

impl std::fmt::Debug for TransactionalSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionalSender").field("id", &self.id).finish_non_exhaustive()
    }
}
