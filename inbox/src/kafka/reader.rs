use std::collections::HashMap;
use std::sync::Arc;

use rdkafka::ClientConfig;
use rdkafka::consumer::{CommitMode, Consumer as _, StreamConsumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use rdkafka::topic_partition_list::TopicPartitionList;

use super::context::{self, Context, Rebalanced};
use super::error::Error;
use super::retention::RetentionQuery;
use crate::core::PartitionId;
use crate::event::{Event, Header, Headers};

/// What is set unless the configuration says otherwise.
const DEFAULTS: [(&str, &str); 4] = [
    ("auto.offset.reset", "earliest"),
    // What librdkafka keeps of fetched records; its own default is 64 MiB.
    ("queued.max.messages.kbytes", "8192"),
    // A broker that is back is noticed soon; its own default is 10 s.
    ("reconnect.backoff.max.ms", "1000"),
    // A topic or partition that is made later is noticed soon; its own default is 5 minutes.
    ("topic.metadata.refresh.interval.ms", "10000"),
];

/// A consumer of Kafka whose offsets the inbox commits.
pub struct Consumer {
    inner: StreamConsumer<Context>,
    topics: HashMap<String, Arc<str>>,
    config: ClientConfig,
    subscribed: Vec<String>,
}

impl Consumer {
    /// A consumer with the service's own configuration, subscribed to these topics.
    ///
    /// # Errors
    ///
    /// When the configuration lets librdkafka commit offsets, which would lose events, or librdkafka refuses it. When it is
    /// called outside of a tokio runtime.
    pub fn subscribe(config: &ClientConfig, topics: &[&str]) -> Result<Self, Error> {
        // rdkafka would panic.
        tokio::runtime::Handle::try_current().map_err(Error::NoRuntime)?;
        let mut config = config.clone();
        for name in ["enable.auto.commit", "auto.commit.enable"] {
            let value = config.get(name).unwrap_or("false").to_owned();
            if value != "false" {
                let reason = "it commits what is not done yet";
                return Err(Error::Setting { name, value, reason });
            }
        }
        config.set("enable.auto.commit", "false").set("enable.auto.offset.store", "false");
        for (name, value) in DEFAULTS {
            if config.get(name).is_none() {
                config.set(name, value);
            }
        }
        let inner: StreamConsumer<Context> =
            config.create_with_context(Context::default()).map_err(Error::Create)?;
        inner.subscribe(topics).map_err(Error::Subscribe)?;
        let subscribed = topics.iter().map(|topic| (*topic).to_owned()).collect();
        Ok(Self { inner, topics: HashMap::new(), config, subscribed })
    }

    /// How to ask for how long Kafka keeps the records of the topics.
    pub(crate) fn retention(&self) -> RetentionQuery {
        RetentionQuery::new(self.config.clone(), self.subscribed.clone())
    }

    /// The next record; `None` when there was something else, such as a rebalance.
    pub(crate) async fn next(&mut self) -> Result<Option<Arc<Event>>, Error> {
        match self.inner.recv().await {
            Ok(message) => Ok(Some(Arc::new(event(&mut self.topics, &message)))),
            Err(error) if is_fatal(&error) => Err(Error::Read(error)),
            Err(error) => {
                tracing::warn!(%error, "reading from Kafka goes on after an error");
                Ok(None)
            }
        }
    }

    /// What Kafka has changed.
    pub(crate) fn take_rebalanced(&self) -> Vec<Rebalanced> {
        self.inner.context().take_rebalanced()
    }

    /// Remembers up to where a partition has ended, in case it is taken away.
    pub(crate) fn set_end(&self, id: &PartitionId, end: i64) {
        self.inner.context().set_end(id, end);
    }

    /// Whether a commit was refused since this was last asked: what was to be committed has to be told again.
    pub(crate) fn take_commit_failed(&self) -> bool {
        self.inner.context().take_commit_failed()
    }

    /// Commits up to these offsets, without waiting for the answer unless it is the last time.
    pub(crate) fn commit(&self, ends: &[(PartitionId, i64)], is_last: bool) {
        if ends.is_empty() {
            return;
        }
        let mut list = TopicPartitionList::new();
        ends.iter().for_each(|(id, end)| context::add(&mut list, id, *end));
        let mode = if is_last { CommitMode::Sync } else { CommitMode::Async };
        if let Err(error) = self.inner.commit(&list, mode) {
            tracing::warn!(%error, "offsets are not committed yet");
            self.inner.context().set_commit_failed();
        }
    }

    /// Fetches no more of a partition.
    pub(crate) fn pause(&self, id: &PartitionId) {
        if let Err(error) = self.inner.pause(&list(id)) {
            tracing::warn!(%error, "a partition is not paused");
        }
    }

    /// Fetches it again.
    pub(crate) fn resume(&self, id: &PartitionId) {
        if let Err(error) = self.inner.resume(&list(id)) {
            tracing::error!(%error, topic = &*id.topic, partition = id.partition, "a partition stays paused");
        }
    }
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Consumer")
    }
}

fn list(id: &PartitionId) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    list.add_partition(&id.topic, id.partition);
    list
}

fn is_fatal(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal)
}

fn event(topics: &mut HashMap<String, Arc<str>>, message: &BorrowedMessage<'_>) -> Event {
    let topic = match topics.get(message.topic()) {
        Some(topic) => Arc::clone(topic),
        None => {
            let topic: Arc<str> = Arc::from(message.topic());
            topics.insert(message.topic().to_owned(), Arc::clone(&topic));
            topic
        }
    };
    let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
    let headers = headers
        .map(|header| Header { name: header.key.to_owned(), value: header.value.map(<[u8]>::to_vec) })
        .collect::<Headers>();
    Event {
        topic,
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers,
        timestamp_ms: message.timestamp().to_millis(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumer_that_would_lose_events_or_panic_is_refused() {
        let none = Consumer::subscribe(&ClientConfig::new(), &["topic"]);
        assert!(matches!(none, Err(Error::NoRuntime(_))), "{none:?}");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _entered = runtime.enter();
        for name in ["enable.auto.commit", "auto.commit.enable"] {
            let refused = Consumer::subscribe(ClientConfig::new().set(name, "true"), &["topic"]);
            assert!(matches!(refused, Err(Error::Setting { .. })), "{refused:?}");
        }
    }
}
