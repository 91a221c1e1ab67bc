use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{Consumer as _, StreamConsumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};

use super::context::InboxContext;

/// How long the brokers may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Asks how many partitions a topic has.
pub(crate) struct Partitions<C: InboxContext> {
    pub(super) inner: Arc<StreamConsumer<C>>,
}

impl<C: InboxContext> Partitions<C> {
    /// How many it has now. Blocks until a broker has answered.
    pub(crate) fn count(&self, topic: &str) -> KafkaResult<i32> {
        let metadata = self.inner.fetch_metadata(Some(topic), ANSWER_WITHIN)?;
        let counts = metadata.topics().iter().map(|topic| i32::try_from(topic.partitions().len()));
        // A broker that does not know the topic just now tells none.
        let count = counts.filter_map(Result::ok).max().filter(|count| *count > 0);
        count.ok_or(KafkaError::MetadataFetch(RDKafkaErrorCode::UnknownTopicOrPartition))
    }
}
