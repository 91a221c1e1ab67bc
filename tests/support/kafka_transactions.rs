//! Queries of Kafka's transactions for the tests, and the abort of one as an operator does it.

use rdkafka::consumer::{BaseConsumer, Consumer};

use super::super::cache::run;
use super::super::kafka_home::{java, tools_home};
use super::super::wait::{DEADLINE, eventually_eq};
use super::{DECIDED_WITHIN, Kafka};

impl Kafka {
    /// Returns the number of records in the topics with this prefix that no transaction has committed or aborted yet,
    /// or that are behind such a record.
    pub(crate) fn undecided_count(&self, prefix: &str) -> i64 {
        let (committed, all) =
            (self.consumer(), self.consumer_of(self.client().set("isolation.level", "read_uncommitted")));
        let metadata = all.fetch_metadata(None, DEADLINE).unwrap();
        let topics = metadata.topics().iter().filter(|topic| topic.name().starts_with(prefix));
        let partitions = topics.flat_map(|topic| topic.partitions().iter().map(|p| (topic.name(), p.id())));
        let end = |consumer: &BaseConsumer, topic: &str, partition: i32| {
            consumer.fetch_watermarks(topic, partition, DEADLINE).unwrap().1
        };
        partitions.map(|(topic, id)| end(&all, topic, id) - end(&committed, topic, id)).sum()
    }

    /// Ends what Kafka has forgotten to end, as an operator does: aborts the transaction that is open in each partition of
    /// the topics whose name begins so, if there is one. Returns in how many there was.
    pub(crate) fn abort_open(&self, prefix: &str) -> usize {
        let (committed, all) =
            (self.consumer(), self.consumer_of(self.client().set("isolation.level", "read_uncommitted")));
        let metadata = all.fetch_metadata(None, DEADLINE).unwrap();
        let mut count = 0;
        for topic in metadata.topics().iter().filter(|topic| topic.name().starts_with(prefix)) {
            for partition in topic.partitions() {
                let place = (topic.name(), partition.id());
                let [decided, end] = [&committed, &all]
                    .map(|consumer| consumer.fetch_watermarks(place.0, place.1, DEADLINE).unwrap().1);
                if decided < end {
                    self.abort_from(place, decided);
                    count += 1;
                }
            }
        }
        count
    }

    /// Runs a command line of Kafka's tools, such as `kafka-topics.sh …`, as a shell would.
    pub(crate) fn run_tool(&self, line: &str) {
        let (script, rest) = line.split_once(' ').unwrap();
        assert!(rest.contains(&format!("--bootstrap-server {} ", self.bootstrap())), "{line}");
        let class = match script {
            "kafka-topics.sh" => "org.apache.kafka.tools.TopicCommand",
            "kafka-configs.sh" => "kafka.admin.ConfigCommand",
            "kafka-acls.sh" => "org.apache.kafka.tools.AclCommand",
            other => panic!("{other} is not known here"),
        };
        let mut command = java(&tools_home());
        command.arg(class).args(rest.split_whitespace());
        run(line, &mut command);
    }

    /// Runs `kafka-transactions.sh abort`.
    fn abort_from(&self, (topic, partition): (&str, i32), offset: i64) {
        let (partition, offset) = (partition.to_string(), offset.to_string());
        let mut command = java(&tools_home());
        command.args(["org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", &self.bootstrap()]);
        command.args(["abort", "--topic", topic, "--partition", &partition, "--start-offset", &offset]);
        run("kafka-transactions.sh abort", &mut command);
    }

    /// Waits until everything in the topics whose name begins so is decided: Kafka answers a commit before the partitions
    /// show it. A transaction that is left open stays so for longer than this waits.
    #[track_caller]
    pub(crate) fn wait_until_decided(&self, prefix: &str) {
        eventually_eq(DECIDED_WITHIN, &0, || self.undecided_count(prefix));
    }
}
