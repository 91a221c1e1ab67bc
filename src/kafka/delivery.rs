use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::producer::{DeliveryResult, NoCustomPartitioner, ProducerContext};
use tokio::sync::Notify;

use super::Error;
use super::connection_failures::CONNECTION_FAILED;
use super::log_ends::{Doubt, LogEnds};
use crate::ack::Ticket;
use crate::connect::record::{Fingerprint, ID_HEADER, ProducerRecord};

/// How many refused records are told one by one: when a topic is gone, everything on its way there is refused.
pub const REFUSED_MAX: usize = 10_000;

/// What librdkafka calls a request without an answer, and the broker that transactions are committed with.
const REQUEST_TIMED_OUT: &str = "REQTMOUT";
const COORDINATOR: &str = "TxnCoordinator";

/// Records of one transaction that the broker has acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivered {
    /// Their transaction.
    pub ticket: Ticket,
    /// How many.
    pub records: usize,
    /// Their weight in the window.
    pub bytes: usize,
}

/// The event's id, and by what the record is known again.
type RecordName = (Option<String>, Fingerprint);

/// Where an acknowledgement says that a record is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReportPlace<'r> {
    pub(crate) topic: &'r str,
    pub(crate) partition: i32,
    /// Below 0 when it does not say.
    pub(crate) offset: i64,
}

/// A record that will never be acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("topic {topic:?}{}{}: {reason}", shown(", partition", self.partition.as_ref()), shown(", event id", self.event_id.as_ref()))]
pub struct Rejection {
    /// Its transaction.
    pub ticket: Ticket,
    /// Where it was to go.
    pub topic: String,
    /// The partition, when it was known.
    pub partition: Option<i32>,
    /// The event's id, from the record's `id` header.
    pub event_id: Option<String>,
    /// By what the record is known again.
    pub fingerprint: Fingerprint,
    /// What stands against it.
    pub cause: Cause,
    /// The same in words: librdkafka's, or those of the doubt.
    pub reason: String,
}

/// What stands against a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// librdkafka's code.
    Code(RDKafkaErrorCode),
    /// It was acknowledged, and is perhaps not in the log.
    Doubt(Doubt),
}

impl Rejection {
    /// Of a record that the producer does not take.
    pub(super) fn new(ticket: Ticket, record: &ProducerRecord<'_>, error: &KafkaError) -> Self {
        let (cause, reason) = told(error);
        Self {
            ticket,
            topic: record.topic.to_owned(),
            partition: record.partition,
            event_id: record.event_id().map(|id| String::from_utf8_lossy(id).into_owned()),
            fingerprint: record.fingerprint(),
            cause,
            reason,
        }
    }

    fn reported(ticket: Ticket, message: &BorrowedMessage<'_>, error: &KafkaError) -> Self {
        let (cause, reason) = told(error);
        let partition = Some(message.partition()).filter(|partition| *partition >= 0);
        let (topic, offset) = (message.topic(), message.offset());
        let place = ReportPlace { topic, partition: message.partition(), offset };
        Self { partition, cause, reason, ..Self::doubted(ticket, place, named(message), Doubt::NoOffset) }
    }

    fn doubted(
        ticket: Ticket,
        place: ReportPlace<'_>,
        (event_id, fingerprint): RecordName,
        doubt: Doubt,
    ) -> Self {
        Self {
            ticket,
            topic: place.topic.to_owned(),
            partition: Some(place.partition),
            event_id,
            fingerprint,
            cause: Cause::Doubt(doubt),
            reason: doubt.to_string(),
        }
    }

    /// Whether the record was acknowledged, and is perhaps not in the log. A new producer can send it again.
    #[must_use]
    pub const fn is_doubtful(&self) -> bool {
        matches!(self.cause, Cause::Doubt(_))
    }

    /// What it is counted as in `relay_publish_errors_total`.
    #[must_use]
    pub fn kind(&self) -> String {
        match self.cause {
            Cause::Code(code) => code.to_string(),
            Cause::Doubt(_) => "not written".to_owned(),
        }
    }

    /// Whether the record failed only because another one had failed before.
    pub(crate) const fn is_consequence(&self) -> bool {
        use RDKafkaErrorCode as Code;
        matches!(
            self.cause,
            Cause::Code(
                Code::Fatal
                    | Code::GaplessGuarantee
                    | Code::PurgeQueue
                    | Code::PurgeInflight
                    | Code::InvalidDifferentRecord
                    | Code::OutOfOrderSequenceNumber
            )
        )
    }

    /// Whether nothing stands against the record itself: the brokers do not go on with this producer, or nobody has told why it
    /// cannot. A new producer can send it again.
    #[must_use]
    pub const fn is_of_producer(&self) -> bool {
        use RDKafkaErrorCode as Code;
        self.is_consequence()
            || matches!(
                self.cause,
                Cause::Code(
                    Code::UnknownProducerId | Code::InvalidProducerEpoch | Code::InvalidProducerIdMapping
                )
            )
    }

    /// What helps against it.
    #[must_use]
    pub fn cure(&self) -> Option<String> {
        let topic = &self.topic;
        let Cause::Code(code) = self.cause else { return None };
        Some(match code {
            RDKafkaErrorCode::MessageSizeTooLarge => format!(
                "raise the topic's limit: kafka-configs.sh --alter --topic {topic} --add-config max.message.bytes=…; if \
                 single records are far below it, lower producer.batch.size instead"
            ),
            RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic => {
                format!("create the topic: kafka-topics.sh --create --topic {topic} --partitions 3")
            }
            RDKafkaErrorCode::UnknownPartition => {
                format!(
                    "the row names a partition that topic {topic} does not have: add partitions, or correct the row"
                )
            }
            RDKafkaErrorCode::TopicAuthorizationFailed => {
                format!("kafka-acls.sh --add --allow-principal User:… --operation Write --topic {topic}")
            }
            RDKafkaErrorCode::InvalidTopic => {
                "the routed name is no legal topic: correct route.topic.replacement or \
                 the row"
                    .to_owned()
            }
            RDKafkaErrorCode::InvalidRecord => format!(
                "topic {topic} refuses the record: a compacted topic wants a key, and a timestamp must be near the \
                 broker's clock"
            ),
            _ => return None,
        })
    }
}

/// What has come back since it was last looked at.
#[derive(Debug, Default)]
pub struct Reports {
    /// Acknowledged records.
    pub delivered: Vec<Delivered>,
    /// How many records failed; each is one that will not be acknowledged.
    pub failed_records: usize,
    /// Their weight in the window.
    pub failed_bytes: usize,
    /// The first refusal, if there was one.
    pub rejection: Option<Rejection>,
    /// Every record that was refused for its own sake, up to a limit.
    pub refused: Vec<Rejection>,
    /// The producer's fatal error, if there was one.
    pub fatal: Option<String>,
    /// The last connection trouble, if no broker has answered since.
    pub trouble: Option<String>,
    /// The connection to the coordinator of transactions has broken.
    pub coordinator_lost: bool,
    /// What keeps records from being seen, or from being sent, when it takes long: something undecided before them.
    pub hidden: Option<String>,
    /// What has come of the commit or the abort of a Kafka transaction.
    pub ended: Option<Result<(), Error>>,
}

impl Reports {
    /// What is in the way, if something is.
    #[must_use]
    pub fn obstacle(&self) -> Option<&str> {
        self.trouble.as_deref().or(self.hidden.as_deref())
    }

    /// Counts an acknowledged record. True when it is the first since the last look: whoever has been told once takes all
    /// that is there.
    fn deliver(&mut self, ticket: Ticket, bytes: usize) -> bool {
        self.trouble = None;
        match self.delivered.last_mut() {
            Some(last) if last.ticket == ticket => {
                last.records = last.records.saturating_add(1);
                last.bytes = last.bytes.saturating_add(bytes);
                false
            }
            last => {
                let is_first = last.is_none();
                self.delivered.push(Delivered { ticket, records: 1, bytes });
                is_first
            }
        }
    }
}

/// Collects delivery reports on librdkafka's thread and hands them over in batches.
///
/// The number of waiting reports is bounded by the in-flight window.
#[derive(Debug, Clone, Default)]
pub struct Deliveries(pub(super) Arc<Shared>);

#[derive(Debug, Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) arrived: Notify,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) reports: Reports,
    pub(super) log_ends: LogEnds,
    /// Counts the producers.
    pub(super) generation: u64,
}

impl Deliveries {
    /// Waits until something has come back. Cancel-safe.
    pub async fn arrived(&self) {
        self.0.arrived.notified().await;
    }

    /// Takes what has come back. `spare` is kept for the next batch, so that steady state allocates nothing.
    pub fn take(&self, mut spare: Vec<Delivered>) -> Reports {
        spare.clear();
        let reports = &mut self.lock().reports;
        Reports {
            delivered: mem::replace(&mut reports.delivered, spare),
            failed_records: mem::take(&mut reports.failed_records),
            failed_bytes: mem::take(&mut reports.failed_bytes),
            rejection: reports.rejection.take(),
            refused: mem::take(&mut reports.refused),
            fatal: reports.fatal.take(),
            trouble: reports.trouble.clone(),
            coordinator_lost: mem::take(&mut reports.coordinator_lost),
            hidden: reports.hidden.clone(),
            ended: reports.ended.take(),
        }
    }

    /// The last connection trouble, if no broker has answered since.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.lock().reports.trouble.clone()
    }

    /// A new producer begins: what the last one left behind says nothing about it.
    pub(crate) fn begin_anew(&self) {
        let mut state = self.lock();
        let generation = state.generation.wrapping_add(1);
        *state = State { generation, ..State::default() };
    }

    /// A broker has answered.
    pub(super) fn clear_trouble(&self) {
        self.lock().reports.trouble = None;
        self.0.arrived.notify_one();
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A record was acknowledged; `name` tells which one, if that is asked.
    pub(crate) fn acknowledged(
        &self,
        ticket: Ticket,
        place: ReportPlace<'_>,
        bytes: usize,
        name: impl FnOnce() -> RecordName,
    ) {
        let mut state = self.lock();
        let outcome = state.log_ends.advance(place.topic, place.partition, place.offset);
        if let Err(doubt) = outcome {
            drop(state);
            self.rejected(Rejection::doubted(ticket, place, name(), doubt), bytes);
            return;
        }
        let is_news = state.reports.deliver(ticket, bytes);
        drop(state);
        if is_news {
            self.0.arrived.notify_one();
        }
    }

    /// A record will never be acknowledged.
    pub(crate) fn rejected(&self, rejection: Rejection, bytes: usize) {
        let mut state = self.lock();
        let reports = &mut state.reports;
        if rejection.ticket != Ticket::STATE {
            reports.failed_records = reports.failed_records.saturating_add(1);
            reports.failed_bytes = reports.failed_bytes.saturating_add(bytes);
        }
        if !rejection.is_consequence() && !rejection.is_doubtful() && reports.refused.len() < REFUSED_MAX {
            reports.refused.push(rejection.clone());
        }
        // The first that is no mere consequence says why: what was behind it fails because of it.
        if reports
            .rejection
            .as_ref()
            .is_none_or(|first| first.is_consequence() && !rejection.is_consequence())
        {
            reports.rejection = Some(rejection);
        }
        drop(state);
        self.0.arrived.notify_one();
    }
}

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        // librdkafka tells it nowhere else: the connection is its own business, unless a commit was on it.
        // When a request was not answered in time, it closes the connection without calling that a failure.
        if [CONNECTION_FAILED, REQUEST_TIMED_OUT].contains(&facility) && message.contains(COORDINATOR) {
            self.lost_coordinator();
        }
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error => {
                tracing::debug!(facility, message, "librdkafka error");
            }
            RDKafkaLogLevel::Warning => tracing::debug!(facility, message, "librdkafka warning"),
            _ => tracing::trace!(facility, message, "librdkafka"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let mut state = self.lock();
        let reports = &mut state.reports;
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::Fatal | RDKafkaErrorCode::GaplessGuarantee) => {
                reports.fatal.get_or_insert_with(|| reason.to_owned());
            }
            // It only sums up what the errors before it said better.
            Some(RDKafkaErrorCode::AllBrokersDown) if reports.trouble.is_some() => {}
            _ => reports.trouble = Some(reason.to_owned()),
        }
        drop(state);
        self.0.arrived.notify_one();
    }
}

impl ProducerContext<NoCustomPartitioner> for Deliveries {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: usize) {
        match result {
            Ok(message) => {
                let (topic, partition, offset) = (message.topic(), message.partition(), message.offset());
                let place = ReportPlace { topic, partition, offset };
                self.acknowledged(Ticket(ticket), place, weight(message), || named(message));
            }
            Err((error, message)) => {
                self.rejected(Rejection::reported(Ticket(ticket), message, error), weight(message));
            }
        }
    }
}

fn shown(label: &str, value: Option<&impl std::fmt::Display>) -> String {
    value.map_or_else(String::new, |value| format!("{label} {value}"))
}

fn told(error: &KafkaError) -> (Cause, String) {
    let code = error.rdkafka_error_code();
    let reason = code.map_or_else(|| error.to_string(), |code| code.to_string());
    (Cause::Code(code.unwrap_or(RDKafkaErrorCode::Unknown)), reason)
}

fn named(message: &BorrowedMessage<'_>) -> RecordName {
    let id = event_id(message);
    let fingerprint = Fingerprint::new(message.key(), message.payload(), id);
    (id.map(|id| String::from_utf8_lossy(id).into_owned()), fingerprint)
}

fn event_id<'m>(message: &'m BorrowedMessage<'_>) -> Option<&'m [u8]> {
    message.headers()?.iter().find(|header| header.key == ID_HEADER)?.value
}

/// The same as [`crate::connect::record::ProducerRecord::weight`] of the record that was sent.
fn weight(message: &BorrowedMessage<'_>) -> usize {
    message.key().map_or(0, <[u8]>::len).saturating_add(message.payload_len())
}
