//! The causes for which a transaction fails, with their classes, exit codes and fixes.

use rdkafka::error::RDKafkaErrorCode as Code;

use crate::error::{Diagnosis, Exit};
use crate::kafka::tool_lines;

/// Cause of a transaction's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionFault {
    /// Another producer has begun with the same id, or the transaction took longer than its time-out: the
    /// brokers do not distinguish the two.
    Fenced,
    /// A missing permission, or a setting that the brokers do not accept.
    Refused,
    /// Unknown outcome: the written records may be committed or not.
    Unknown,
}

impl TransactionFault {
    pub(in crate::kafka) fn diagnosis(self, id: &str) -> Diagnosis {
        match self {
            Self::Fenced => Diagnosis::transient(Exit::Precondition).with_fix(format!(
                "another program that does not hold the slot uses transactional.id {id}: give one of the two its own \
                 producer.override.transactional.id. If there is none, transactions take longer than \
                 producer.override.transaction.timeout.ms: raise it"
            )),
            Self::Refused => Diagnosis::definite(Exit::Precondition).with_fix(format!(
                "{}; and producer.override.transaction.timeout.ms must not be above the brokers' \
                 transaction.max.timeout.ms",
                tool_lines::allow(&["Write", "Describe"], &format!("--transactional-id {id}"))
            )),
            Self::Unknown => Diagnosis::transient(Exit::KafkaUnreachable),
        }
    }

    pub(in crate::kafka) const fn of(code: Code) -> Self {
        match code {
            Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch => Self::Fenced,
            Code::TransactionalIdAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::TopicAuthorizationFailed
            | Code::InvalidTransactionTimeout
            | Code::UnsupportedFeature => Self::Refused,
            _ => Self::Unknown,
        }
    }
}
