//! The part of a refusal that the record caused, and not the brokers.

use rdkafka::error::RDKafkaErrorCode as Code;

use super::rejection::{Cause, Rejection};

/// Fault for which a record was refused, when another record could be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Missing topic: it concerns every record for it.
    Topic,
    /// The topic has no such partition.
    Partition,
    /// The size of its batch.
    Size,
    /// Something in its batch: a key that is missing, a timestamp out of bounds.
    Contents,
}

impl Fault {
    /// Returns the fault of a record that a code means; `None` when it means none.
    pub(in crate::kafka) const fn of(code: Code) -> Option<Self> {
        match code {
            Code::MessageSizeTooLarge | Code::MessageBatchTooLarge => Some(Self::Size),
            Code::InvalidRecord | Code::InvalidTimestamp => Some(Self::Contents),
            Code::UnknownPartition => Some(Self::Partition),
            Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::InvalidTopic => Some(Self::Topic),
            _ => None,
        }
    }

    /// Returns whether a whole batch is refused, whichever of its records is at fault.
    #[must_use]
    pub const fn is_of_batch(self) -> bool {
        matches!(self, Self::Size | Self::Contents)
    }
}

impl Rejection {
    /// Returns whether the same record would be refused again. Anything else is not the record's fault: the
    /// brokers do not continue with this producer, or cannot report what is wrong (`UNKNOWN_SERVER_ERROR`, of
    /// a log that is just being deleted). A new producer can send it again.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        self.fault().is_some() || self.fix().is_some()
    }

    /// Returns the fault for which a record was refused; `None` when it is nothing that a dead-letter topic
    /// is for, such as a missing permission.
    #[must_use]
    pub const fn fault(&self) -> Option<Fault> {
        match self.cause {
            Cause::Code(code) => Fault::of(code),
            _ => None,
        }
    }

    /// Returns the class of the exception that Kafka's Java client throws for it.
    #[must_use]
    pub const fn java_class(&self) -> &'static str {
        match self.cause {
            Cause::Code(Code::MessageSizeTooLarge) => {
                "org.apache.kafka.common.errors.RecordTooLargeException"
            }
            Cause::Code(Code::MessageBatchTooLarge) => {
                "org.apache.kafka.common.errors.RecordBatchTooLargeException"
            }
            Cause::Code(Code::InvalidRecord) => "org.apache.kafka.common.InvalidRecordException",
            Cause::Code(Code::InvalidTimestamp) => "org.apache.kafka.common.errors.InvalidTimestampException",
            Cause::Code(Code::InvalidTopic) => "org.apache.kafka.common.errors.InvalidTopicException",
            Cause::Code(Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition) => {
                "org.apache.kafka.common.errors.UnknownTopicOrPartitionException"
            }
            _ => "org.apache.kafka.common.KafkaException",
        }
    }
}
