use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::mocking::{MockCluster, MockCoordinator};
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use rdkafka::{Offset, TopicPartitionList};

use super::record::Record;
use super::wait::{DEADLINE, let_pass};

type Cluster = MockCluster<'static, DefaultProducerContext>;

/// Cluster of librdkafka's own mock brokers inside this process. The test sets their answers.
pub(crate) struct MockKafka {
    cluster: Cluster,
}

impl MockKafka {
    pub(crate) fn start(brokers: i32) -> Self {
        Self { cluster: MockCluster::new(brokers).unwrap() }
    }

    /// Returns the value of `bootstrap.servers`.
    pub(crate) fn bootstrap(&self) -> String {
        self.cluster.bootstrap_servers()
    }

    /// Creates a topic whose partitions are led by the brokers in turn.
    pub(crate) fn create_topic(&self, name: &str, partitions: i32, brokers: i32) {
        self.request(|cluster| cluster.create_topic(name, partitions, 1));
        for partition in (0..partitions).filter(|_| brokers > 1) {
            let leader = Some(1 + partition % brokers);
            self.request(|cluster| cluster.partition_leader(name, partition, leader));
        }
    }

    /// Changes the cluster. Its thread misses a request that arrives right behind another one, and sees it a second later.
    fn request(&self, change: impl FnOnce(&Cluster) -> KafkaResult<()>) {
        let_pass(Duration::from_millis(2));
        change(&self.cluster).unwrap();
    }

    /// Makes another broker the leader of this partition.
    pub(crate) fn move_leader(&self, topic: &str, partition: i32, broker: i32) {
        self.cluster.partition_leader(topic, partition, Some(broker)).unwrap();
    }

    /// Makes another broker the coordinator of the transactions of this id.
    pub(crate) fn move_coordinator(&self, transactional_id: &str, broker: i32) {
        let id = MockCoordinator::Transaction(transactional_id.to_owned());
        self.cluster.coordinator(id, broker).unwrap();
    }

    /// Answers the next Produce requests with this error code, one after another.
    pub(crate) fn refuse_produce(&self, code: RDKafkaRespErr, times: usize) {
        self.cluster.request_errors(RDKafkaApiKey::Produce, &vec![code; times]);
    }

    /// Answers Produce requests correctly again.
    pub(crate) fn recover(&self) {
        self.cluster.clear_request_errors(RDKafkaApiKey::Produce);
    }

    /// Limits the brokers to these versions of requests, like older brokers.
    pub(crate) fn speak_at_most(&self, versions: &[(RDKafkaApiKey, i16)]) {
        for (request, newest) in versions {
            self.cluster.apiversion(*request, None, Some(*newest)).unwrap();
        }
    }

    pub(crate) fn broker_down(&self, id: i32) {
        self.cluster.broker_down(id).unwrap();
    }

    pub(crate) fn broker_up(&self, id: i32) {
        self.cluster.broker_up(id).unwrap();
    }

    /// Returns all records of the topic, by partition and offset.
    pub(crate) fn records(&self, topic: &str) -> Vec<Record> {
        self.read(Some(topic))
    }

    /// Returns all records of all topics, by topic, partition and offset.
    pub(crate) fn all_records(&self) -> Vec<Record> {
        self.read(None)
    }

    fn read(&self, topic: Option<&str>) -> Vec<Record> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.bootstrap()).set("group.id", "tests");
        config.set("enable.partition.eof", "true").set("fetch.wait.max.ms", "10");
        let consumer: BaseConsumer = config.create().unwrap();
        let metadata = consumer.fetch_metadata(topic, DEADLINE).unwrap();
        let mut assignment = TopicPartitionList::new();
        for topic in metadata.topics() {
            for partition in topic.partitions() {
                assignment.add_partition_offset(topic.name(), partition.id(), Offset::Beginning).unwrap();
            }
        }
        consumer.assign(&assignment).unwrap();
        let (mut records, mut ends) = (Vec::new(), 0);
        while ends < assignment.count() {
            match consumer.poll(DEADLINE) {
                Some(Ok(message)) => records.push(Record::from(&message)),
                Some(Err(KafkaError::PartitionEOF(_))) => ends += 1,
                Some(Err(error)) => panic!("cannot read: {error}"),
                None => panic!("{ends} of {} partitions have come to their end", assignment.count()),
            }
        }
        records.sort_by(|a, b| a.place().cmp(&b.place()));
        records
    }

    /// Returns the number of records of each partition.
    pub(crate) fn counts(&self, topic: &str) -> BTreeMap<i32, i64> {
        let consumer: BaseConsumer =
            ClientConfig::new().set("bootstrap.servers", self.bootstrap()).create().unwrap();
        let metadata = consumer.fetch_metadata(Some(topic), DEADLINE).unwrap();
        let partitions = metadata.topics()[0].partitions().iter().map(|partition| partition.id());
        let high = |partition| {
            consumer.fetch_watermarks(topic, partition, Duration::from_secs(1)).map_or(0, |(_, high)| high)
        };
        partitions.map(|partition| (partition, high(partition))).collect()
    }
}
