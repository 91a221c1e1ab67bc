//! A record that Kafka refused: its name, the cause, and the fix.

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers, Message};

use crate::ack::Ticket;
use crate::connect::record::{Fingerprint, ID_HEADER, ProducerRecord};
use crate::kafka::consume::log_ends::Doubt;
use crate::kafka::tool_lines;

/// Name of a record.
#[derive(Debug)]
pub(crate) struct RecordName {
    /// The event's id, from the header `id`.
    pub(crate) event_id: Option<String>,
    /// Fingerprint by which the record is recognised.
    pub(crate) fingerprint: Fingerprint,
}

/// Place of a record according to its acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReportPlace<'r> {
    pub(crate) topic: &'r str,
    pub(crate) partition: i32,
    /// Offset; below 0 when it is unknown.
    pub(crate) offset: i64,
}

/// A record that will never be acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("topic {topic:?}{}{}: {reason}", shown(", partition", self.partition.as_ref()), shown(", event id", self.event_id.as_ref()))]
pub struct Rejection {
    /// Its transaction.
    pub ticket: Ticket,
    /// Destination topic.
    pub topic: String,
    /// The partition, when it was known.
    pub partition: Option<i32>,
    /// The event's id, from the record's `id` header.
    pub event_id: Option<String>,
    /// Fingerprint by which the record is recognised.
    pub fingerprint: Fingerprint,
    /// Cause of the rejection.
    pub cause: Cause,
    /// The same as text: librdkafka's message, or that of the doubt.
    pub reason: String,
}

/// Cause of a record's rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// librdkafka's code.
    Code(RDKafkaErrorCode),
    /// Acknowledged, and perhaps not in the log.
    Doubt(Doubt),
}

impl Rejection {
    /// Makes the rejection of a record that the producer does not accept.
    pub(in crate::kafka) fn new(ticket: Ticket, record: &ProducerRecord<'_>, error: &KafkaError) -> Self {
        let (cause, reason) = classify(error);
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

    pub(in crate::kafka) fn reported(
        ticket: Ticket,
        message: &BorrowedMessage<'_>,
        error: &KafkaError,
    ) -> Self {
        let (cause, reason) = classify(error);
        let partition = Some(message.partition()).filter(|partition| *partition >= 0);
        let (topic, offset) = (message.topic(), message.offset());
        let place = ReportPlace { topic, partition: message.partition(), offset };
        Self { partition, cause, reason, ..Self::doubted(ticket, place, named(message), Doubt::NoOffset) }
    }

    pub(in crate::kafka) fn doubted(
        ticket: Ticket,
        place: ReportPlace<'_>,
        RecordName { event_id, fingerprint }: RecordName,
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

    /// Makes the rejection of every record for a topic that brokers refuse to create.
    pub(crate) fn of_topic(topic: &str, reason: String) -> Self {
        Self {
            ticket: Ticket(0),
            topic: topic.to_owned(),
            partition: None,
            event_id: None,
            fingerprint: Fingerprint::new(None, None, None),
            cause: Cause::Code(RDKafkaErrorCode::InvalidTopic),
            reason,
        }
    }

    /// Returns whether the record was acknowledged, and is perhaps not in the log. A new producer can send it
    /// again.
    #[must_use]
    pub const fn is_doubtful(&self) -> bool {
        matches!(self.cause, Cause::Doubt(_))
    }

    /// Returns the label under which it is counted in `outboxd_publish_errors_total`.
    #[must_use]
    pub fn kind(&self) -> String {
        match self.cause {
            Cause::Code(code) => code.to_string(),
            Cause::Doubt(_) => "not written".to_owned(),
        }
    }

    /// Returns whether the record failed only because another one had failed before. A producer whose transaction has failed
    /// accepts no more records (`State`), possibly before the report of the record that caused the failure.
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
                    | Code::State
            )
        )
    }

    /// Returns the fix.
    #[must_use]
    pub fn fix(&self) -> Option<String> {
        let topic = &self.topic;
        let Cause::Code(code) = self.cause else { return None };
        Some(match code {
            RDKafkaErrorCode::MessageSizeTooLarge => format!(
                "raise the topic's limit: {}; if single records are far below it, lower producer.batch.size instead",
                tool_lines::set_property(topic, "max.message.bytes=BYTES")
            ),
            RDKafkaErrorCode::MessageBatchTooLarge => format!(
                "lower producer.batch.size below the topic's segment.bytes, or raise that: {}",
                tool_lines::set_property(topic, "segment.bytes=BYTES")
            ),
            RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic => {
                let create = tool_lines::topics(&format!("--create --topic {topic} --partitions 3"));
                format!("create the topic: {create}")
            }
            RDKafkaErrorCode::UnknownPartition => {
                format!(
                    "the row names a partition that topic {topic} does not have: add partitions, or correct the row"
                )
            }
            RDKafkaErrorCode::TopicAuthorizationFailed => {
                tool_lines::allow(&["Write"], &format!("--topic {topic}"))
            }
            RDKafkaErrorCode::ClusterAuthorizationFailed => idempotent_write_fix(),
            RDKafkaErrorCode::UnsupportedCompressionType => {
                "choose another producer.compression.type: the brokers do not support this one".to_owned()
            }
            RDKafkaErrorCode::InvalidTopic => {
                "Kafka does not allow this topic name: correct route.topic.replacement or the row. With errors.tolerance=all and \
                 errors.deadletterqueue.topic.name such events become dead letters"
                    .to_owned()
            }
            RDKafkaErrorCode::InvalidTimestamp => format!(
                "the row's time is further from the broker's clock than topic {topic} allows: see its settings \
                 message.timestamp.before.max.ms and message.timestamp.after.max.ms"
            ),
            RDKafkaErrorCode::InvalidRecord => format!(
                "topic {topic} refuses the record: a compacted topic needs a key, and a timestamp must be \
                 near the broker's clock"
            ),
            _ => return None,
        })
    }
}

/// Returns the fix for a producer that brokers give no id. A right to write to any topic is enough for them since Kafka 3.0.
pub(super) fn idempotent_write_fix() -> String {
    tool_lines::allow(&["IdempotentWrite"], "--cluster")
}

fn shown(label: &str, value: Option<&impl std::fmt::Display>) -> String {
    value.map_or_else(String::new, |value| format!("{label} {value}"))
}

fn classify(error: &KafkaError) -> (Cause, String) {
    let code = error.rdkafka_error_code();
    let reason = code.map_or_else(|| error.to_string(), |code| code.to_string());
    (Cause::Code(code.unwrap_or(RDKafkaErrorCode::Unknown)), reason)
}

pub(in crate::kafka) fn named(message: &BorrowedMessage<'_>) -> RecordName {
    let id = event_id(message);
    let headers = message.headers().into_iter().flat_map(Headers::iter);
    let headers = headers.map(|header| (header.key, header.value));
    let fingerprint = Fingerprint::of(message.key(), message.payload(), headers);
    RecordName { event_id: id.map(|id| String::from_utf8_lossy(id).into_owned()), fingerprint }
}

fn event_id<'m>(message: &'m BorrowedMessage<'_>) -> Option<&'m [u8]> {
    message.headers()?.iter().find(|header| header.key == ID_HEADER)?.value
}
