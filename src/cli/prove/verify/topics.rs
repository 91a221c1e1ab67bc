//! Facts of the topics besides their records.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::error::VerifyError;
use super::records::TopicsRead;
use crate::kafka::{self, Admin, ScannedPartition, Settings};
use crate::verification::{PartitionStart, Retention, TopicState, Topics};

/// Timeout of one request.
const QUESTION_MAX: Duration = Duration::from_secs(10);

/// Number of topics of one request.
const TOPICS_AT_ONCE: usize = 200;

/// Returns the state of each topic, in the order of their numbers. A setting that brokers do not return
/// counts as the default.
pub(super) async fn states(options: &kafka::Options, read: &TopicsRead) -> Result<Topics, VerifyError> {
    let admin = Admin::new(options)?;
    let names: Vec<&str> = read.list.names.iter().map(String::as_str).collect();
    let mut settings = Vec::new();
    for some in names.chunks(TOPICS_AT_ONCE) {
        let answers = admin.topic_settings(some, QUESTION_MAX).await.unwrap_or_default();
        let mut answers = answers.into_iter().map(Result::ok);
        settings.extend(some.iter().map(|_| answers.next().flatten().unwrap_or_default()));
    }
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let now_ms = i64::try_from(now_ms).unwrap_or_default();
    let states = names.iter().zip(settings).map(|(name, settings)| state(read, name, &settings, now_ms));
    Ok(Topics::new(states.collect()))
}

/// Returns the topics that do not exist.
pub(super) fn absent(read: &TopicsRead) -> Vec<&str> {
    let there = |name: &str| read.partitions.iter().any(|partition| partition.topic == name);
    read.list.names.iter().map(String::as_str).filter(|name| !there(name)).collect()
}

fn state(read: &TopicsRead, name: &str, settings: &Settings, now_ms: i64) -> TopicState {
    let partitions = || read.partitions.iter().filter(|partition| partition.topic == name);
    let retention_ms: Option<i64> = settings.get("retention.ms").and_then(|text| text.parse().ok());
    let kept_since = retention_ms.filter(|millis| *millis >= 0).map(|millis| now_ms.saturating_sub(millis));
    let start = |partition: &ScannedPartition| {
        let topic = read.list.find(name)?;
        let oldest_ms = match read.oldest_ms.get(&(topic, partition.id)) {
            Some(oldest) => Some(*oldest),
            // Everything was deleted.
            None if partition.low >= partition.end => kept_since,
            None => None,
        };
        Some((partition.id, PartitionStart { oldest_ms }))
    };
    // Behind its beginning nothing is lost.
    let shortened = partitions().filter(|partition| partition.low > 0 && partition.from <= partition.low);
    TopicState {
        partitions: u32::try_from(partitions().count()).unwrap_or(u32::MAX),
        compacted: settings.get("cleanup.policy").is_some_and(|policy| policy.contains("compact")),
        shortened: shortened.filter_map(start).collect(),
        retention: Retention { until_ms: kept_since, by_more: deletes_by_more(settings) },
    }
}

/// Returns whether the brokers may delete by the size, or do not return their limits.
fn deletes_by_more(settings: &Settings) -> bool {
    let limit = |name: &str| settings.get(name).and_then(|text| text.parse::<i64>().ok());
    limit("retention.ms").is_none() || limit("retention.bytes").is_none_or(|bytes| bytes >= 0)
}
