//! Retention of topics.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::KafkaResult;

/// Time limit for an answer from the brokers.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Time for which Kafka retains the records of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Retention {
    /// Records are deleted at this age.
    Within(Duration),
    /// Records are never deleted by age.
    ForEver,
}

/// Query for the retention of topics.
#[derive(Debug)]
pub(crate) struct RetentionQuery {
    config: ClientConfig,
    topics: Vec<String>,
}

impl RetentionQuery {
    pub(super) fn new(config: ClientConfig, topics: Vec<String>) -> Self {
        Self { config, topics }
    }

    /// Returns the topics that the brokers describe, each with its retention. Patterns are skipped.
    pub(crate) async fn ask(&self) -> KafkaResult<Vec<(String, Retention)>> {
        let admin: AdminClient<DefaultClientContext> = self.config.create()?;
        let names: Vec<&String> = self.topics.iter().filter(|name| !name.starts_with('^')).collect();
        let topics: Vec<_> = names.iter().map(|name| ResourceSpecifier::Topic(name)).collect();
        let options = AdminOptions::new().request_timeout(Some(ANSWER_WITHIN));
        let told = admin.describe_configs(&topics, &options).await?;
        let known = names.into_iter().zip(told);
        Ok(known.filter_map(|(name, told)| Some((name.clone(), of(&told.ok()?)?))).collect())
    }
}

fn of(topic: &ConfigResource) -> Option<Retention> {
    let value = |name: &str| topic.entries.iter().find(|entry| entry.name == name)?.value.as_deref();
    Some(read(value("cleanup.policy")?, value("retention.ms")?))
}

fn read(policy: &str, retention_ms: &str) -> Retention {
    match retention_ms.parse::<u64>() {
        Ok(ms) if policy.contains("delete") => Retention::Within(Duration::from_millis(ms)),
        _ => Retention::ForEver,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_deleted_by_age_has_an_end() {
        let week = Retention::Within(Duration::from_millis(604_800_000));
        assert_eq!(read("delete", "604800000"), week);
        assert_eq!(read("compact,delete", "604800000"), week);
        assert_eq!(read("compact", "604800000"), Retention::ForEver);
        assert_eq!(read("delete", "-1"), Retention::ForEver);
    }
}
