//! Operations on topics for the tests.

use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::Consumer;
use rdkafka::{Offset, TopicPartitionList};
use tokio::runtime::Runtime;

use super::super::wait::{DEADLINE, eventually};
use super::Kafka;

impl Kafka {
    /// Creates a topic, with properties of the topic such as `max.message.bytes`.
    pub(crate) fn create_topic(&self, name: &str, partition_count: i32, properties: &[(&str, &str)]) {
        let mut topic = NewTopic::new(name, partition_count, TopicReplication::Fixed(1));
        topic.config = properties.to_vec();
        let options = AdminOptions::new().operation_timeout(Some(DEADLINE));
        let results = runtime().block_on(self.admin().create_topics([&topic], &options)).unwrap();
        results.into_iter().for_each(|result| drop(result.unwrap()));
    }

    /// Sets a property of a topic.
    pub(crate) fn alter_topic(&self, name: &str, property: (&str, &str)) {
        let mut config = AlterConfig::new(ResourceSpecifier::Topic(name));
        config = config.set(property.0, property.1);
        let options = AdminOptions::new().operation_timeout(Some(DEADLINE));
        let results = runtime().block_on(self.admin().alter_configs([&config], &options)).unwrap();
        results.into_iter().for_each(|result| drop(result.unwrap()));
    }

    /// Increases the number of a topic's partitions to `partition_count`.
    pub(crate) fn add_partitions(&self, name: &str, partition_count: usize) {
        let partitions = NewPartitions::new(name, partition_count);
        let options = AdminOptions::new().operation_timeout(Some(DEADLINE));
        let results = runtime().block_on(self.admin().create_partitions([&partitions], &options)).unwrap();
        results.into_iter().for_each(|result| drop(result.unwrap()));
        eventually(DEADLINE, "the partitions are there", || {
            let metadata = self.consumer().fetch_metadata(Some(name), DEADLINE).unwrap();
            metadata.topics()[0].partitions().len() == partition_count
        });
    }

    /// Deletes what a partition has before this offset.
    pub(crate) fn delete_records(&self, name: &str, partition: i32, before: i64) {
        let mut records = TopicPartitionList::new();
        records.add_partition_offset(name, partition, Offset::Offset(before)).unwrap();
        let options = AdminOptions::new().operation_timeout(Some(DEADLINE));
        let results = runtime().block_on(self.admin().delete_records(&records, &options)).unwrap();
        results.elements().iter().for_each(|partition| partition.error().unwrap());
    }

    /// Deletes a topic, and waits until it is gone.
    pub(crate) fn delete_topic(&self, name: &str) {
        let options = AdminOptions::new().operation_timeout(Some(DEADLINE));
        let results = runtime().block_on(self.admin().delete_topics(&[name], &options)).unwrap();
        results.into_iter().for_each(|result| drop(result.unwrap()));
        eventually(DEADLINE, "the topic is deleted", || !self.topics(name).contains(&name.to_owned()));
    }

    /// Deletes every topic that is not Kafka's own, and waits until they are gone.
    pub(crate) fn delete_topics(&self) {
        let names = self.own_topics();
        if names.is_empty() {
            return;
        }
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let options = AdminOptions::new().operation_timeout(Some(DEADLINE));
        let results = runtime().block_on(self.admin().delete_topics(&names, &options)).unwrap();
        results.into_iter().for_each(|result| drop(result.unwrap()));
        eventually(DEADLINE, "the topics are deleted", || self.own_topics().is_empty());
    }

    /// Returns the names of the topics with this prefix, in order.
    pub(crate) fn topics(&self, prefix: &str) -> Vec<String> {
        let consumer = self.consumer();
        let metadata = consumer.fetch_metadata(None, DEADLINE).unwrap();
        let names = metadata.topics().iter().map(|topic| topic.name().to_owned());
        let mut names: Vec<_> = names.filter(|name| name.starts_with(prefix)).collect();
        names.sort_unstable();
        names
    }

    fn own_topics(&self) -> Vec<String> {
        self.topics("").into_iter().filter(|name| !name.starts_with("__")).collect()
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.client().create().unwrap()
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}
