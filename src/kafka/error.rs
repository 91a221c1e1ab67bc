//! Errors of Kafka.

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use super::produce::fault::Fault;
use super::produce::rejection::Rejection;
use super::tool_lines;
use super::transactional::transaction_fault::TransactionFault;
use crate::error::{Diagnose, Diagnosis, Exit};

/// Failures between outboxd and Kafka.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// librdkafka refuses a setting, for this reason.
    #[error("a Kafka setting is not usable: {0}")]
    Settings(String),
    /// No broker answered.
    #[error("Kafka at {servers} cannot be reached{}: {}", within(*seconds), plain(reason))]
    Unreachable {
        /// `bootstrap.servers`.
        servers: String,
        /// Seconds for which it was tried.
        seconds: u64,
        /// librdkafka's last message.
        reason: String,
    },
    /// A record was refused for good.
    #[error("Kafka refused a record of {0}")]
    Rejected(#[source] Box<Rejection>),
    /// A record was acknowledged, and may not be in the log; or the producer cannot continue for another reason.
    #[error("{}", unwritten(.0))]
    Unwritten(#[source] Box<Rejection>),
    /// The producer is in a state in which it cannot continue.
    #[error("the Kafka producer cannot continue: {0}")]
    Fatal(String),
    /// A Kafka transaction failed, or its outcome is unknown.
    #[error("a Kafka transaction of transactional.id {id:?} cannot be {doing}: {reason}")]
    Transaction {
        /// Cause.
        fault: TransactionFault,
        /// `begun`, `committed` and the like.
        doing: &'static str,
        /// The `transactional.id`.
        id: String,
        /// librdkafka's message.
        reason: String,
    },
    /// The topic of exactly-once's state cannot be created, read or written.
    #[error("topic {topic:?}, which has the end of the last Kafka transaction, cannot be {doing}: {reason}")]
    StateTopic {
        /// `made`, `read` or `written`.
        doing: &'static str,
        /// Name of the topic.
        topic: String,
        /// librdkafka's message.
        reason: String,
        /// No permission: waiting does not help.
        refused: bool,
    },
    /// The topic of the positions cannot be created, read or written.
    #[error("topic {topic:?}, in which outboxd stores its position, cannot be {doing}: {reason}")]
    PositionTopic {
        /// `made`, `read` or `written`.
        doing: &'static str,
        /// Name of the topic.
        topic: String,
        /// librdkafka's message.
        reason: String,
        /// Fault, which decides whether waiting helps.
        fault: TopicFault,
    },
    /// A missing topic cannot be created with the settings of `topic.creation`.
    #[error("topic {topic:?} cannot be created by topic.creation.{group}: {reason}")]
    TopicCreation {
        /// Name of the topic.
        topic: String,
        /// The group that it belongs to.
        group: String,
        /// librdkafka's message.
        reason: String,
        /// Scope of the necessary change.
        fault: CreationFault,
    },
    /// The topic of the states of dead letters cannot be created or read.
    #[error("topic {topic:?}, which has the states of dead letters, cannot be {doing}: {reason}")]
    DeadLetterStates {
        /// `made` or `read`.
        doing: &'static str,
        /// Name of the topic.
        topic: String,
        /// librdkafka's message.
        reason: String,
        /// No permission: waiting does not help.
        refused: bool,
    },
    /// A partition has an open transaction, which hides committed records.
    #[error(
        "partition {partition} of topic {topic:?} has a transaction that is neither committed nor aborted: \
         consumers of committed records see nothing after it"
    )]
    Undecided {
        /// The topic.
        topic: String,
        /// Partition.
        partition: i32,
    },
    /// A transaction was ended otherwise than it was committed.
    #[error(
        "partition {partition} of topic {topic:?}: a transaction that Kafka had promised to commit was \
         aborted there. Its rows are sent again, from the slot's position"
    )]
    TakenBack {
        /// The topic.
        topic: String,
        /// Partition.
        partition: i32,
    },
    /// The topic of `offset.storage.topic` does not exist.
    #[error("offset.storage.topic: there is no topic {topic:?}")]
    NoOffsetTopic {
        /// Name of the topic.
        topic: String,
    },
    /// The topic of the stored offsets cannot be read or written.
    #[error("offset.storage.topic: topic {topic:?} cannot be {doing}: {reason}")]
    OffsetTopic {
        /// `read` or `written`.
        doing: &'static str,
        /// Name of the topic.
        topic: String,
        /// librdkafka's message.
        reason: String,
    },
    /// A topic cannot be read from its front to its end.
    #[error("topic {topic:?} cannot be read: {reason}")]
    Unread {
        /// Name of the topic.
        topic: String,
        /// librdkafka's message.
        reason: String,
        /// The brokers deny access.
        forbidden: bool,
    },
    /// The end of a topic cannot be read.
    #[error("the end of topic {topic:?} cannot be read: {reason}")]
    TopicTail {
        /// Name of the topic.
        topic: String,
        /// librdkafka's message.
        reason: String,
        /// The brokers deny access.
        forbidden: bool,
    },
    /// The group that reads a topic of signals has no place in it, or cannot store one.
    #[error("the group's place in topic {topic:?} of signals cannot be {doing}: {reason}")]
    SignalGroup {
        /// `read` or `stored`.
        doing: &'static str,
        /// Name of the topic.
        topic: String,
        /// librdkafka's message.
        reason: String,
    },
}

/// Fault of a topic of outboxd's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicFault {
    /// Transient: it may pass without any action.
    Passing,
    /// The brokers deny access.
    Refused,
    /// The topic was deleted with its contents.
    Missing,
}

/// Reason for which a topic cannot be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreationFault {
    /// Passing: it may be created later.
    Passing,
    /// Its name, or a policy of the brokers. It concerns the records for this topic.
    Topic,
    /// The keys `topic.creation.*` of its group.
    Settings,
}

impl Error {
    /// Makes the error of a setting without the client library's text, which has the value behind the key: it
    /// may be a secret.
    pub(super) fn settings(error: KafkaError) -> Self {
        Self::Settings(match error {
            KafkaError::ClientConfig(_, description, _, _) => description,
            error => error.to_string(),
        })
    }

    /// Makes the error for brokers that refuse to create a topic, with their reason.
    pub(crate) fn refused_topic(topic: &str, reason: String) -> Self {
        Self::Rejected(Box::new(Rejection::of_topic(topic, reason)))
    }

    /// Returns whether the brokers do not let this producer continue.
    #[must_use]
    pub const fn is_fenced_or_refused(&self) -> bool {
        use TransactionFault::{Fenced, Refused};
        matches!(self, Self::Transaction { fault: Fenced | Refused, .. })
    }

    /// Returns whether a transaction was committed, and consumers may not see it.
    #[must_use]
    pub const fn is_unseen(&self) -> bool {
        matches!(self, Self::Undecided { .. } | Self::TopicTail { .. } | Self::TakenBack { .. })
    }

    /// Makes the error for a refused record of a transaction's state.
    #[must_use]
    pub fn unwritten_state(rejection: Rejection) -> Self {
        let refused = rejection.is_lasting();
        let Rejection { topic, reason, .. } = rejection;
        Self::StateTopic { doing: "written", topic, reason, refused }
    }

    /// Makes the error for the unknown end of a topic.
    pub(super) fn unread_tail(topic: String, error: &KafkaError) -> Self {
        let forbidden = error.rdkafka_error_code() == Some(Code::TopicAuthorizationFailed);
        Self::TopicTail { topic, reason: error.to_string(), forbidden }
    }
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Settings(_) => {
                Diagnosis::config().with_fix("see the producer.* and rdkafka.* keys of the configuration")
            }
            Self::Unreachable { reason, .. } => {
                Diagnosis::transient(Exit::KafkaUnreachable).with_fix(unreachable_fix(reason))
            }
            Self::Rejected(rejection) => Diagnosis::definite(Exit::Row).with_optional_fix(rejection.fix()),
            Self::Unwritten(_) => Diagnosis::transient(Exit::Failed).with_fix(
                "nothing is lost: start outboxd again, and it sends again what was not written. \
                 If the error returns, check whether a topic is being deleted, and read the brokers' logs",
            ),
            Self::Fatal(_) => Diagnosis::transient(Exit::Failed),
            Self::Transaction { fault, id, .. } => fault.diagnosis(id),
            Self::StateTopic { topic, refused: true, .. } => {
                Diagnosis::definite(Exit::Precondition).with_fix(format!(
                    "{}, if the brokers use ACLs; to use another topic, set outboxd.exactly.once.state.topic",
                    allow_all(topic)
                ))
            }
            Self::PositionTopic { topic, fault: TopicFault::Refused | TopicFault::Missing, .. } => {
                Diagnosis::definite(Exit::Precondition).with_fix(format!(
                    "{}, if the brokers use ACLs; to use another topic, or none, set outboxd.position.topic",
                    allow_all(topic)
                ))
            }
            Self::DeadLetterStates { topic, refused: true, .. } => {
                Diagnosis::definite(Exit::Precondition).with_fix(format!(
                    "{}, if the brokers use ACLs; to use another topic, set --state-topic",
                    allow_all(topic)
                ))
            }
            Self::PositionTopic { topic, fault: TopicFault::Passing, .. }
            | Self::StateTopic { topic, refused: false, .. }
            | Self::DeadLetterStates { topic, refused: false, .. } => {
                Diagnosis::transient(Exit::KafkaUnreachable).with_fix(format!(
                    "nothing is lost; start it again. If the error comes back, {} shows whether its partitions have a leader, and \
                     the brokers' logs why they are slow",
                    tool_lines::topics(&format!("--describe --topic {topic}"))
                ))
            }
            Self::TopicCreation { fault: CreationFault::Topic, .. } => {
                Diagnosis::definite(Exit::Row).with_fix(
                    "route these events to a topic of another name. With errors.tolerance=all and errors.deadletterqueue.topic.name they \
                     become dead letters, and the others continue",
                )
            }
            Self::TopicCreation { fault: CreationFault::Settings, group, topic, .. } => {
                Diagnosis::definite(Exit::Precondition).with_fix(creation_fix(group, topic))
            }
            Self::TopicCreation { fault: CreationFault::Passing, group, topic, .. } => {
                Diagnosis::transient(Exit::KafkaUnreachable).with_fix(creation_fix(group, topic))
            }
            Self::Undecided { .. } => Diagnosis::transient(Exit::KafkaUnreachable).with_fix(
                "the brokers abort it when it is older than its producer's transaction.timeout.ms. If \
                 it remains, Kafka does not end it, and kafka-transactions.sh --bootstrap-server … \
                 find-hanging --broker-id … shows it. Until it has ended, outboxd run confirms none of its \
                 rows to PostgreSQL, and outboxd dlq settles no dead letter. To end it: \
                 docs/guarantees.md#transactions-that-kafka-aborts-or-expires",
            ),
            Self::TakenBack { .. } => Diagnosis::transient(Exit::KafkaUnreachable),
            Self::NoOffsetTopic { topic } => Diagnosis::definite(Exit::Precondition).with_fix(format!(
                "name the topic of the Connect worker that is replaced, or remove the key; to make the topic: {}",
                tool_lines::topics(&format!(
                    "--create --topic {topic} --partitions 25 --config cleanup.policy=compact"
                ))
            )),
            Self::OffsetTopic { topic, .. } => Diagnosis::transient(Exit::KafkaUnreachable).with_fix(format!(
                "{}, if the brokers use ACLs",
                tool_lines::allow(&["Read", "Write", "Describe"], &format!("--topic {topic}"))
            )),
            Self::Unread { topic, forbidden: true, .. } => {
                Diagnosis::definite(Exit::Precondition).with_fix(reading_fix(topic))
            }
            Self::Unread { forbidden: false, .. } => Diagnosis::transient(Exit::KafkaUnreachable),
            Self::TopicTail { topic, .. } => {
                Diagnosis::transient(Exit::KafkaUnreachable).with_fix(reading_fix(topic))
            }
            Self::SignalGroup { topic, .. } => Diagnosis::transient(Exit::KafkaUnreachable)
                .with_fix(format!("{}, if the brokers use ACLs", signal_right(topic))),
        }
    }
}

fn creation_fix(group: &str, topic: &str) -> String {
    format!(
        "correct the keys topic.creation.{group}.*, or make the topic yourself: {}",
        tool_lines::topics(&format!("--create --topic {topic}"))
    )
}

/// Returns the line that gives the rights to read signals from a topic.
pub(super) fn signal_right(topic: &str) -> String {
    tool_lines::allow(&["Read"], &format!("--topic {topic} --group '*'"))
}

fn reading_fix(topic: &str) -> String {
    format!("{}, if the brokers use ACLs", tool_lines::allow(&["Read"], &format!("--topic {topic}")))
}

const fn unwritten(rejection: &Rejection) -> &'static str {
    if rejection.is_doubtful() {
        "Kafka acknowledged a record that it may not have written"
    } else if matches!(rejection.fault(), Some(Fault::Partition)) {
        "a topic was created again with fewer partitions"
    } else if rejection.is_consequence() {
        "Kafka does not accept this producer any more"
    } else {
        "Kafka did not write a record, and reports no reason"
    }
}

/// Returns the time for a message; empty when there was no wait.
fn within(seconds: u64) -> String {
    if seconds == 0 { String::new() } else { format!(" within {seconds} s") }
}

/// Returns librdkafka's text without its own states, for a person: `127.0.0.1:1/bootstrap: Connect to
/// ipv4#127.0.0.1:1 failed: Connection refused (after 0ms in state CONNECT, 1 identical error(s)
/// suppressed)`.
fn plain(reason: &str) -> String {
    let reason = reason.split_once(" (after ").map_or(reason, |(words, _)| words);
    reason.replace("/bootstrap: ", ": ").replace("ipv4#", "").replace("ipv6#", "")
}

fn unreachable_fix(reason: &str) -> &'static str {
    let says = |word: &str| reason.to_ascii_lowercase().contains(word);
    if says("outboxd.kafka.token.command") {
        "run the command of outboxd.kafka.token.command as outboxd's user: it must print a token; its stderr is in the log of outboxd"
    } else if says("outboxd.kafka.auth") {
        "see which identity outboxd has, and what its service answers: docs/credentials.md names the variables of Azure and Google"
    } else if says("cannot be read again") {
        "see that the file of the token is there and can be read by outboxd's user, and that it has a token alone"
    } else if says("oauthbearer") {
        "check producer.sasl.oauthbearer.token.endpoint.url, and clientId and clientSecret in \
         producer.sasl.jaas.config"
    } else if says("sasl") || says("authentication") {
        "check producer.security.protocol, producer.sasl.mechanism and producer.sasl.jaas.config"
    } else if says(" alert ") {
        "the broker refuses outboxd's certificate, or needs one: check producer.ssl.keystore.location (a \
         PEM file with the key and the certificate), and that the broker trusts the authority that signed \
         it"
    } else if says("certificate verify failed") {
        // The client library does not report which of the two it is.
        "producer.ssl.truststore.location must hold the authority that signed the broker's \
         certificate, and the certificate must name the host in bootstrap.servers and in the brokers' \
         advertised.listeners (an empty producer.ssl.endpoint.identification.algorithm switches the check \
         of the host off)"
    } else if says("ssl") || says("certificate") {
        "check producer.security.protocol and producer.ssl.truststore.location"
    } else {
        "check bootstrap.servers, that the brokers run, and that their advertised.listeners can be reached \
         from here; if they need TLS or a login, set producer.security.protocol"
    }
}

/// Returns the line that allows all that outboxd does with a topic of its own.
fn allow_all(topic: &str) -> String {
    tool_lines::allow(&["Create", "Describe", "Read", "Write"], &format!("--topic {topic}"))
}

#[cfg(test)]
mod tests {
    use rdkafka::types::RDKafkaConfRes;

    use super::*;

    #[test]
    fn a_refused_setting_is_reported_without_its_value() {
        let (reason, key) = ("Configuration property \"ssl.key.pem\" is not usable", "ssl.key.pem");
        let refused = RDKafkaConfRes::RD_KAFKA_CONF_INVALID;
        let error = KafkaError::ClientConfig(refused, reason.into(), key.into(), "hunter2".into());
        assert_eq!(Error::settings(error).to_string(), format!("a Kafka setting is not usable: {reason}"));
    }

    #[test]
    fn a_topic_that_is_slow_is_not_blamed_on_rights() {
        let error = |fault| {
            let (topic, reason) = ("positions".to_owned(), "timed out".to_owned());
            Error::PositionTopic { doing: "written", topic, reason, fault }.fix().unwrap_or_default()
        };
        assert!(error(TopicFault::Passing).contains(" --describe --topic positions "));
        assert!(error(TopicFault::Refused).contains("kafka-acls.sh"));
    }

    #[test]
    fn why_kafka_cannot_be_reached_is_reported_without_the_librarys_states() {
        let reason = "127.0.0.1:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms in state CONNECT, 1 \
                      identical error(s) suppressed)";
        let error = |seconds| {
            let (servers, reason) = ("127.0.0.1:1".to_owned(), reason.to_owned());
            Error::Unreachable { servers, seconds, reason }.to_string()
        };
        let expected = "127.0.0.1:1: Connect to 127.0.0.1:1 failed: Connection refused";
        assert_eq!(error(0), format!("Kafka at 127.0.0.1:1 cannot be reached: {expected}"));
        assert_eq!(error(3), format!("Kafka at 127.0.0.1:1 cannot be reached within 3 s: {expected}"));
    }
}
