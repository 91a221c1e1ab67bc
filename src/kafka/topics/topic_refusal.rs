//! Reasons why brokers refuse to create a topic. librdkafka's binding has the code of an answer and not its
//! text, so that another request is sent that shows it.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::admin::{AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::{Client, ClientContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use tokio::task::spawn_blocking;

use super::administrator::Administrator;
use super::topic_creation::TopicGroup;

/// Returns whether brokers confuse two names: in the names of their metrics a dot becomes an underscore.
fn collides(one: &str, other: &str) -> bool {
    one != other && one.replace('.', "_") == other.replace('.', "_")
}

/// Returns the existing topic whose name collides with this one. Blocks for `patience` at most.
pub(in crate::kafka) fn colliding_topic(
    client: &Client<impl ClientContext>,
    topic: &str,
    patience: Duration,
) -> Option<String> {
    let metadata = client.fetch_metadata(None, patience).ok()?;
    let mut names = metadata.topics().iter().map(rdkafka::metadata::MetadataTopic::name);
    names.find(|name| collides(name, topic)).map(str::to_owned)
}

/// Returns the reason for which a colliding name is refused.
pub(in crate::kafka) fn collision(other: &str) -> String {
    format!(
        "topic {other:?} exists, and brokers refuse a name that differs from another one only in '.' and '_'"
    )
}

/// Returns the reason of a refusal, as far as another request shows it; otherwise the code's text.
pub(in crate::kafka) async fn reason(
    admin: Administrator,
    group: &TopicGroup,
    topic: &str,
    error: &KafkaError,
    patience: Duration,
) -> String {
    let found = match error {
        KafkaError::AdminOp(Code::InvalidTopic) => {
            let (admin, topic) = (Arc::new(admin), topic.to_owned());
            let asking = move || colliding_topic(admin.blocking_client().ok()?.inner(), &topic, patience);
            spawn_blocking(asking).await.ok().flatten().map(|other| collision(&other))
        }
        KafkaError::AdminOp(Code::InvalidPartitions) => {
            Some(format!("partitions={}: {error}", group.partitions))
        }
        KafkaError::AdminOp(Code::InvalidReplicationFactor) => {
            Some(format!("replication.factor={}: {error}", group.replication_factor))
        }
        KafkaError::AdminOp(Code::Authentication | Code::OperationTimedOut) => admin.last_failure(),
        KafkaError::AdminOp(Code::InvalidConfig) => refused_settings(&admin, group, topic, patience).await,
        _ => None,
    };
    found.unwrap_or_else(|| error.to_string())
}

/// Returns the settings of a group that brokers refuse, each requested alone. Nothing is created.
async fn refused_settings(
    admin: &Administrator,
    group: &TopicGroup,
    topic: &str,
    patience: Duration,
) -> Option<String> {
    let limits = AdminOptions::new().request_timeout(Some(patience)).operation_timeout(Some(patience));
    let limits = limits.validate_only(true);
    let mut refused = Vec::new();
    for (name, value) in &group.settings {
        let replication = TopicReplication::Fixed(group.replication_factor);
        let new = NewTopic::new(topic, group.partitions, replication).set(name, value);
        let answer = admin.client().await.ok()?.create_topics([&new], &limits).await.ok()?;
        if let Some(Err((_, Code::InvalidConfig))) = answer.first() {
            refused.push(format!("topic.creation.{}.{name}={value}", group.name));
        }
    }
    (!refused.is_empty())
        .then(|| format!("the brokers do not know the setting or its value: {}", refused.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_only_in_dots_and_underscores_collide() {
        let cases = [
            ("a.b", "a_b", true),
            ("a.b_c", "a_b.c", true),
            ("a.b", "a.b", false),
            ("a.b", "a-b", false),
            ("a.b", "a_b_c", false),
        ];
        for (one, other, expected) in cases {
            assert_eq!((collides(one, other), collides(other, one)), (expected, expected), "{one} {other}");
        }
    }
}
