//! Read-only queries of brokers, topics and their settings.

use std::collections::HashMap;
use std::time::Duration;

use rdkafka::admin::{AdminOptions, ConfigResource, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::MetadataTopic;

use super::administrator::Administrator;
use crate::kafka::connection_failures::ConnectionFailures;
use crate::kafka::consume::reader::code as code_of;
use crate::kafka::error::Error;
use crate::kafka::options::Options;
use crate::kafka::stores::position_topic::position_topic_error;

/// Read-only client for the metadata of the brokers.
pub(crate) struct Admin {
    administrator: Administrator,
    servers: String,
}

/// A broker of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broker {
    /// Its `node.id`.
    pub id: i32,
}

/// A topic as it lies on the brokers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Topic {
    /// Name.
    pub name: String,
    /// Number of partitions.
    pub partitions: usize,
    /// The copies of the partition that has the fewest.
    pub replicas: usize,
    /// The copies in sync of the partition that has the fewest.
    pub in_sync: usize,
    /// Partitions without a leader: nothing can be written to them.
    pub leaderless: usize,
}

/// Settings of a topic or a broker, by name, without the secret ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings(HashMap<String, String>);

impl Admin {
    /// Sets the client up, with the producer's settings.
    ///
    /// # Errors
    /// When librdkafka refuses a setting.
    pub(crate) fn new(options: &Options) -> Result<Self, Error> {
        let administrator =
            Administrator::new(options, ConnectionFailures::default()).map_err(Error::settings)?;
        Ok(Self { administrator, servers: options.bootstrap_servers.clone() })
    }

    /// Returns the visible brokers and topics. Blocks for `patience` at most. Requests no topic by name, so
    /// that none is created by that.
    ///
    /// # Errors
    /// When no broker answers.
    pub(crate) fn cluster(&self, patience: Duration) -> Result<(Vec<Broker>, Vec<Topic>), Error> {
        let client = self.administrator.blocking_client();
        let metadata = client.and_then(|client| client.inner().fetch_metadata(None, patience));
        let metadata = metadata.map_err(|error| self.unanswered(&error, patience))?;
        let brokers = metadata.brokers().iter().map(|broker| Broker { id: broker.id() }).collect();
        let topics = metadata.topics().iter().filter(|topic| topic.error().is_none());
        Ok((brokers, topics.map(Topic::from).collect()))
    }

    /// Returns the settings of a broker.
    ///
    /// # Errors
    /// The code of the brokers: most often a missing permission.
    pub(crate) async fn broker_settings(
        &self,
        broker: Broker,
        patience: Duration,
    ) -> Result<Settings, RDKafkaErrorCode> {
        let mut settings = self.describe(&[ResourceSpecifier::Broker(broker.id)], patience).await?;
        settings.pop().unwrap_or(Err(RDKafkaErrorCode::Unknown))
    }

    /// Returns the settings of each topic, in the same order, or the error of each.
    ///
    /// # Errors
    /// When there is no answer at all.
    pub(crate) async fn topic_settings(
        &self,
        topics: &[&str],
        patience: Duration,
    ) -> Result<Vec<Result<Settings, RDKafkaErrorCode>>, RDKafkaErrorCode> {
        let resources: Vec<_> = topics.iter().map(|topic| ResourceSpecifier::Topic(topic)).collect();
        self.describe(&resources, patience).await
    }

    /// Checks whether a topic of the relay's own may be created. Nothing is created.
    ///
    /// # Errors
    /// When the brokers would not create it.
    pub(crate) async fn may_make(&self, topic: &str, patience: Duration) -> Result<(), Error> {
        let options = AdminOptions::new().request_timeout(Some(patience)).validate_only(true);
        let new = NewTopic::new(topic, 1, TopicReplication::Fixed(-1));
        let answers = match self.administrator.client().await {
            Ok(client) => client.create_topics([&new], &options).await,
            Err(error) => Err(error),
        };
        let error = match answers.map(|answers| answers.into_iter().next()) {
            Ok(Some(Ok(_)) | None) => return Ok(()),
            Ok(Some(Err((_, code)))) => KafkaError::AdminOp(code),
            Err(error) => error,
        };
        Err(position_topic_error(topic, "made", &error))
    }

    async fn describe(
        &self,
        resources: &[ResourceSpecifier<'_>],
        patience: Duration,
    ) -> Result<Vec<Result<Settings, RDKafkaErrorCode>>, RDKafkaErrorCode> {
        let options = AdminOptions::new().request_timeout(Some(patience));
        let client = self.administrator.client().await.map_err(|error| code(&error))?;
        let answers = client.describe_configs(resources, &options).await.map_err(|error| code(&error))?;
        Ok(answers.into_iter().map(|answer| answer.map(Settings::from)).collect())
    }

    fn unanswered(&self, error: &KafkaError, patience: Duration) -> Error {
        self.administrator.unreachable(&self.servers, error, patience).unwrap_or_else(|| Error::Unreachable {
            servers: self.servers.clone(),
            seconds: patience.as_secs(),
            reason: code(error).to_string(),
        })
    }
}

impl Settings {
    /// Makes settings that are known by name.
    #[must_use]
    pub(crate) fn new(settings: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(settings.into_iter().collect())
    }

    /// Returns the value of a setting, if it was returned.
    #[must_use]
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the value of a setting that is a number.
    #[must_use]
    pub(crate) fn number(&self, name: &str) -> Option<usize> {
        self.get(name)?.parse().ok()
    }
}

impl From<ConfigResource> for Settings {
    fn from(resource: ConfigResource) -> Self {
        Self::new(resource.entries.into_iter().filter_map(|entry| Some((entry.name, entry.value?))))
    }
}

impl From<&MetadataTopic> for Topic {
    fn from(topic: &MetadataTopic) -> Self {
        let partitions = topic.partitions();
        let fewest = |copies: fn(&rdkafka::metadata::MetadataPartition) -> usize| {
            partitions.iter().map(copies).min().unwrap_or_default()
        };
        Self {
            name: topic.name().to_owned(),
            partitions: partitions.len(),
            replicas: fewest(|partition| partition.replicas().len()),
            in_sync: fewest(|partition| partition.isr().len()),
            leaderless: partitions.iter().filter(|partition| partition.leader() < 0).count(),
        }
    }
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Admin")
    }
}

fn code(error: &KafkaError) -> RDKafkaErrorCode {
    code_of(error).unwrap_or(RDKafkaErrorCode::Unknown)
}
