use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::Message;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde_json::Value;

use crate::clock::unix_us;
use crate::support::kafka::Kafka;
use crate::topic::PARTITIONS;

/// Reads a topic from its beginning.
pub(crate) struct Consumer(BaseConsumer);

/// A record that has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    /// Time at which its row was written, in microseconds since 1970.
    pub(crate) written_us: i64,
    /// Time since then.
    pub(crate) latency: Duration,
}

impl Consumer {
    pub(crate) fn open(kafka: &Kafka, topic: &str) -> Self {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", kafka.bootstrap())
            .set("group.id", "compare")
            .set("enable.auto.commit", "false")
            .create()
            .unwrap();
        let mut assignment = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            assignment.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
        }
        consumer.assign(&assignment).unwrap();
        Self(consumer)
    }

    /// Returns the next record, if one arrives in time.
    pub(crate) fn next(&self, within: Duration) -> Option<Arrival> {
        let record = self.0.poll(within)?.unwrap();
        let now_us = unix_us();
        let written_us = written_us(record.payload().expect("a payload"));
        let latency = Duration::from_micros(u64::try_from(now_us - written_us).unwrap_or_default());
        Some(Arrival { written_us, latency })
    }
}

/// Returns the member `t` of the payload, whatever a converter has wrapped it in.
fn written_us(value: &[u8]) -> i64 {
    let mut value: Value = serde_json::from_slice(value).expect("JSON");
    loop {
        if let Some(written_us) = value["t"].as_i64() {
            return written_us;
        }
        value = match &value {
            Value::String(text) => serde_json::from_str(text).expect("JSON in a string"),
            _ => value["payload"].clone(),
        };
        assert!(!value.is_null(), "a record without the time of its row");
    }
}
