//! Makes topics that are not there.

use std::time::Duration;

use rdkafka::admin::{AdminOptions, NewTopic, TopicReplication};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use super::administrator::Administrator;
use super::topic_creation::TopicGroup;
use super::topic_refusal;
use crate::kafka::connection_failures::ConnectionFailures;
use crate::kafka::error::{CreationFault, Error};
use crate::kafka::options::Options;

/// Timeout of the creation of a topic.
const PATIENCE: Duration = Duration::from_secs(10);

/// Result for a topic that may not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    /// Created.
    Now,
    /// Existed, or is created by the brokers.
    NotByUs,
}

/// Creates a topic with the settings of `topic.creation`, unless it exists.
///
/// # Errors
/// When the brokers refuse these settings, or do not answer.
pub(crate) async fn make_topic(options: &Options, topic: &str) -> Result<Made, Error> {
    let creation = options.topic_creation.as_ref();
    let Some(group) = creation.and_then(|creation| creation.group(topic)) else { return Ok(Made::NotByUs) };
    let made = create(options, group, topic, Create::It).await;
    if let Ok(Made::Now) = made {
        let (group, partitions) = (&group.name, group.partitions);
        tracing::info!(topic, group, partitions, "created a topic by topic.creation");
    }
    made
}

/// Checks whether [`make_topic`] would create it. Nothing is created.
///
/// # Errors
/// As of [`make_topic`].
pub(crate) async fn check_topic(options: &Options, topic: &str) -> Result<Made, Error> {
    let creation = options.topic_creation.as_ref();
    let Some(group) = creation.and_then(|creation| creation.group(topic)) else { return Ok(Made::NotByUs) };
    create(options, group, topic, Create::Nothing).await
}

/// Extent of the request to the brokers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Create {
    It,
    Nothing,
}

async fn create(options: &Options, group: &TopicGroup, topic: &str, what: Create) -> Result<Made, Error> {
    let refused = |error: &KafkaError, reason: String| Error::TopicCreation {
        topic: topic.to_owned(),
        group: group.name.clone(),
        reason,
        fault: fault_of(error),
    };
    let admin = Administrator::new(options, ConnectionFailures::default());
    let admin = admin.map_err(|error| refused(&error, error.to_string()))?;
    match asked(&admin, group, topic, what).await {
        Ok(()) => Ok(Made::Now),
        Err(KafkaError::AdminOp(Code::TopicAlreadyExists)) => Ok(Made::NotByUs),
        Err(KafkaError::AdminOp(Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed)) => {
            tracing::debug!(topic, "the brokers do not let us make topics: it is there, or they make it");
            Ok(Made::NotByUs)
        }
        Err(error) => {
            let reason = topic_refusal::reason(admin, group, topic, &error, PATIENCE).await;
            Err(refused(&error, reason))
        }
    }
}

async fn asked(
    admin: &Administrator,
    group: &TopicGroup,
    topic: &str,
    what: Create,
) -> Result<(), KafkaError> {
    let replication = TopicReplication::Fixed(group.replication_factor);
    let mut new = NewTopic::new(topic, group.partitions, replication);
    new.config = group.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let limits = AdminOptions::new().request_timeout(Some(PATIENCE)).operation_timeout(Some(PATIENCE));
    let limits = limits.validate_only(what == Create::Nothing);
    match admin.client().await?.create_topics([&new], &limits).await?.into_iter().next() {
        Some(Err((_, code))) => Err(KafkaError::AdminOp(code)),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// Returns the scope of what must change until another request has another result.
const fn fault_of(error: &KafkaError) -> CreationFault {
    match error {
        KafkaError::AdminOp(Code::InvalidTopic | Code::PolicyViolation) => CreationFault::Topic,
        // What librdkafka itself refuses.
        KafkaError::AdminOpCreation(_)
        | KafkaError::AdminOp(
            Code::InvalidPartitions
            | Code::InvalidReplicationFactor
            | Code::InvalidConfig
            | Code::InvalidRequest
            | Code::InvalidArgument,
        ) => CreationFault::Settings,
        _ => CreationFault::Passing,
    }
}
