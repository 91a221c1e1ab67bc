//! Committed offsets of consumer groups.

use std::time::Duration;

use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};

use super::reader::{consumer, unreachable};
use crate::kafka::client_config::client_config;
use crate::kafka::connection_failures::ConnectionFailures;
use crate::kafka::error::Error;
use crate::kafka::options::Options;

/// Returns the offsets that a consumer group has committed for these partitions, in their order; `None` where
/// it has committed nothing. An unknown group has committed nothing. Blocks.
///
/// # Errors
/// When the brokers do not answer, or deny access.
pub(crate) fn group_offsets(
    options: &Options,
    group: &str,
    partitions: &[(String, i32)],
    patience: Duration,
) -> Result<Vec<Option<i64>>, Error> {
    let mut config = client_config(options);
    config.set("group.id", group).set("enable.auto.commit", "false");
    let failures = ConnectionFailures::default();
    let consumer = consumer(options, &config, &failures)?;
    let mut question = TopicPartitionList::with_capacity(partitions.len());
    for (topic, partition) in partitions {
        question.add_partition(topic, *partition);
    }
    let failed = |error: KafkaError| {
        let away = unreachable(&options.bootstrap_servers, &failures, &error, patience);
        away.unwrap_or_else(|| Error::Unread {
            topic: format!("offsets of group {group}"),
            reason: error.to_string(),
            forbidden: false,
        })
    };
    let answer = consumer.committed_offsets(question, patience).map_err(failed)?;
    let committed =
        |(topic, partition): &(String, i32)| match answer.find_partition(topic, *partition)?.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        };
    Ok(partitions.iter().map(committed).collect())
}
