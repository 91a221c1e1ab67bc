//! Kafka consumer of an inbox.

use std::collections::HashMap;
use std::future::{Future as _, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use rdkafka::consumer::{Consumer as _, StreamConsumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::{ClientConfig, Offset};

use super::committer::Committer;
use super::context::{Context, InboxContext, Rebalanced, Rebalances};
use super::error::Error;
use super::group_offset::GroupOffset;
use super::partitions::Partitions;
use super::retention::RetentionQuery;
use crate::core::PartitionId;
use crate::event::{Event, Header, Headers};

/// Settings that apply unless the configuration contains them.
const DEFAULTS: [(&str, &str); 4] = [
    ("auto.offset.reset", "earliest"),
    // Size of librdkafka's buffer for fetched records; its own default is 64 MiB.
    ("queued.max.messages.kbytes", "8192"),
    // A broker that is available again is noticed soon; its own default is 10 s.
    ("reconnect.backoff.max.ms", "1000"),
    // A topic or partition that is created later is noticed soon; its own default is 5 minutes.
    ("topic.metadata.refresh.interval.ms", "10000"),
];

/// Strategy for the assignment of partitions, unless the configuration contains one. A rebalance revokes only the
/// partitions that another member gets; with librdkafka's own default it revokes all partitions, with their events in
/// memory.
const ASSIGNMENT: (&str, &str) = ("partition.assignment.strategy", "cooperative-sticky");

/// Time limit for seeking to an offset.
const SEEK_WITHIN: Duration = Duration::from_secs(2);

/// Kafka consumer whose offsets the inbox commits.
pub struct Consumer<C: InboxContext = Context> {
    inner: Arc<StreamConsumer<C>>,
    topics: HashMap<String, Arc<str>>,
    config: ClientConfig,
    subscribed: Vec<String>,
}

impl Consumer {
    /// Returns a consumer with the service's own configuration, subscribed to these topics.
    ///
    /// By default, partitions are assigned by `cooperative-sticky`. All members of a group must have a common strategy: if
    /// the group has members with librdkafka's own default, or Java's `RangeAssignor`, set `partition.assignment.strategy`
    /// to `range,roundrobin`, or stop all of them before.
    ///
    /// # Errors
    ///
    /// If the configuration lets librdkafka commit offsets, which would lose events, if librdkafka refuses the
    /// configuration or the subscription, or if there is no tokio runtime.
    pub fn subscribe(config: &ClientConfig, topics: &[&str]) -> Result<Self, crate::Error> {
        // Without a runtime, rdkafka would panic.
        tokio::runtime::Handle::try_current().map_err(Error::NoRuntime)?;
        check_commits(config, "false")?;
        let mut config = config.clone();
        config.set("enable.auto.commit", "false").set("enable.auto.offset.store", "false");
        for (name, value) in DEFAULTS {
            if config.get(name).is_none() {
                config.set(name, value);
            }
        }
        // In the protocol of KIP-848, the broker assigns partitions.
        let is_assigned_by_broker =
            config.get("group.protocol").is_some_and(|protocol| protocol.eq_ignore_ascii_case("consumer"));
        if config.get(ASSIGNMENT.0).is_none() && !is_assigned_by_broker {
            config.set(ASSIGNMENT.0, ASSIGNMENT.1);
        }
        let inner: StreamConsumer<Context> =
            config.create_with_context(Context::default()).map_err(Error::Create)?;
        inner.subscribe(topics).map_err(Error::Subscribe)?;
        let subscribed = topics.iter().map(|topic| (*topic).to_owned()).collect();
        Ok(Self { inner: Arc::new(inner), topics: HashMap::new(), config, subscribed })
    }
}

impl<C: InboxContext> Consumer<C> {
    /// Wraps a consumer that the service has created from this configuration, with a context of its own: see
    /// [`Rebalances`]. The consumer must be subscribed already. The service may continue to use it, except for reading,
    /// pausing and committing, which the inbox does.
    ///
    /// # Errors
    ///
    /// If the configuration lets librdkafka commit offsets, as it does by default: set `enable.auto.commit` to `false`.
    pub fn wrap(consumer: Arc<StreamConsumer<C>>, config: &ClientConfig) -> Result<Self, crate::Error> {
        check_commits(config, "true")?;
        let subscribed = consumer.subscription().map_err(Error::Subscribe)?;
        let subscribed = subscribed.elements().iter().map(|element| element.topic().to_owned()).collect();
        Ok(Self { inner: consumer, topics: HashMap::new(), config: config.clone(), subscribed })
    }

    /// Returns a query for the retention of the subscribed topics and of the dead-letter topic.
    pub(crate) fn retention(&self, dead_letters: &str) -> RetentionQuery {
        let dead_letters = dead_letters.to_owned();
        RetentionQuery::new(
            self.config.clone(),
            self.subscribed.iter().cloned().chain([dead_letters]).collect(),
        )
    }

    /// Returns the next record; `None` if there was something else, such as a rebalance.
    pub(crate) async fn next(&mut self) -> Result<Option<Arc<Event>>, Error> {
        let mut received = pin!(self.inner.recv());
        let rebalances: &Rebalances = (**self.inner.context()).as_ref();
        let record_or_rebalance = poll_fn(|waker| match received.as_mut().poll(waker) {
            Poll::Ready(message) => Poll::Ready(Some(message)),
            Poll::Pending if rebalances.has_rebalanced() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        match record_or_rebalance.await {
            None => Ok(None),
            Some(Ok(_)) if !rebalances.is_told() => Err(Error::NotTold),
            Some(Ok(message)) => Ok(Some(Arc::new(event(&mut self.topics, &message)))),
            Some(Err(error)) if is_fatal(&error) => Err(Error::Read(error)),
            Some(Err(error)) if is_of_other_strategy(&error) => {
                tracing::error!(
                    %error,
                    "cannot join the consumer group: its members have another partition.assignment.strategy. Set theirs, such as \
                     range,roundrobin, or stop them before"
                );
                Ok(None)
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "reading from Kafka goes on after an error");
                Ok(None)
            }
        }
    }

    /// Returns the changes of the assignment since the last call.
    pub(crate) fn take_rebalanced(&self) -> Vec<Rebalanced> {
        self.rebalances().take_rebalanced()
    }

    /// Sets the offsets that are committed when a partition is revoked.
    pub(crate) fn set_ends(&self, ends: impl Iterator<Item = (PartitionId, GroupOffset)>) {
        self.rebalances().set_ends(ends);
    }

    /// Returns the committer of this consumer's offsets.
    pub(crate) fn committer(&self) -> Committer<C> {
        Committer { inner: Arc::clone(&self.inner) }
    }

    fn rebalances(&self) -> &Rebalances {
        (**self.inner.context()).as_ref()
    }

    /// Returns a client for queries about partitions.
    pub(crate) fn partitions(&self) -> Partitions<C> {
        Partitions { inner: Arc::clone(&self.inner) }
    }

    /// Returns the consumer group's name, if the configuration has one.
    pub(crate) fn group(&self) -> Option<&str> {
        self.config.get("group.id")
    }

    /// Seeks to this offset of a partition. Returns whether that succeeded.
    pub(crate) fn seek(&self, id: &PartitionId, offset: i64) -> bool {
        match self.inner.seek(&id.topic, id.partition, Offset::Offset(offset), SEEK_WITHIN) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, topic = &*id.topic, partition = id.partition, offset, "cannot go back; retrying");
                false
            }
        }
    }

    /// Pauses the fetching of a partition.
    pub(crate) fn pause(&self, id: &PartitionId) {
        if let Err(error) = self.inner.pause(&list(id)) {
            tracing::warn!(%error, "a partition is not paused");
        }
    }

    /// Resumes the fetching of a partition.
    pub(crate) fn resume(&self, id: &PartitionId) {
        if let Err(error) = self.inner.resume(&list(id)) {
            tracing::error!(%error, topic = &*id.topic, partition = id.partition, "a partition stays paused");
        }
    }
}

impl<C: InboxContext> std::fmt::Debug for Consumer<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Consumer")
    }
}

/// Refuses a configuration that lets librdkafka commit offsets by itself. `unset` is the value that applies without a
/// setting.
fn check_commits(config: &ClientConfig, unset: &str) -> Result<(), Error> {
    let names = ["enable.auto.commit", "auto.commit.enable"];
    let told: Vec<_> = names.into_iter().filter_map(|name| Some((name, config.get(name)?))).collect();
    let told = if told.is_empty() { vec![("enable.auto.commit", unset)] } else { told };
    match told.into_iter().find(|(_, value)| *value != "false") {
        None => Ok(()),
        Some((name, value)) => {
            Err(Error::Setting { name, value: value.to_owned(), reason: "it commits what is not done yet" })
        }
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

/// Reports whether this member and the others of the group have no common strategy.
fn is_of_other_strategy(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::InconsistentGroupProtocol)
}

/// Returns the headers of a record, without those whose name is not UTF-8: Kafka stores such a name, and rdkafka panics at it.
fn headers(message: &BorrowedMessage<'_>) -> Headers {
    let Some(headers) = message.headers() else { return Headers::default() };
    let read = |index| {
        let header = headers.try_get(index)?;
        Some(Header { name: header.key.to_owned(), value: header.value.map(<[u8]>::to_vec) })
    };
    let readable = |index| {
        catch_unwind(AssertUnwindSafe(|| read(index))).unwrap_or_else(|_| {
            let (topic, partition, offset) = (message.topic(), message.partition(), message.offset());
            tracing::warn!(topic, partition, offset, index, "a header is skipped: its name is not UTF-8");
            None
        })
    };
    (0..headers.count()).filter_map(readable).collect()
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
    Event {
        topic,
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: headers(message),
        timestamp_ms: message.timestamp().to_millis(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumer_that_would_lose_events_or_panic_is_refused() {
        let none = Consumer::subscribe(&ClientConfig::new(), &["topic"]);
        assert!(matches!(none, Err(crate::Error::Kafka(Error::NoRuntime(_)))), "{none:?}");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _entered = runtime.enter();
        for name in ["enable.auto.commit", "auto.commit.enable"] {
            let refused = Consumer::subscribe(ClientConfig::new().set(name, "true"), &["topic"]);
            assert!(matches!(refused, Err(crate::Error::Kafka(Error::Setting { .. }))), "{refused:?}");
        }
        let mut config = ClientConfig::new();
        config.set("group.id", "group");
        let own: Arc<StreamConsumer<Context>> =
            Arc::new(config.create_with_context(Context::default()).unwrap());
        let refused = Consumer::wrap(Arc::clone(&own), &config);
        assert!(matches!(refused, Err(crate::Error::Kafka(Error::Setting { .. }))), "{refused:?}");
        assert!(Consumer::wrap(own, config.set("enable.auto.commit", "false")).is_ok());
    }

    #[test]
    fn partitions_are_assigned_cooperatively_unless_configured_otherwise() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _entered = runtime.enter();
        let strategy = |settings: &[(&str, &str)]| {
            let mut config = ClientConfig::new();
            config.set("group.id", "group");
            for (name, value) in settings {
                config.set(*name, *value);
            }
            let consumer = Consumer::subscribe(&config, &["topic"]).unwrap();
            consumer.config.get(ASSIGNMENT.0).map(str::to_owned)
        };
        assert_eq!(strategy(&[]).as_deref(), Some("cooperative-sticky"));
        assert_eq!(strategy(&[("group.protocol", "classic")]).as_deref(), Some("cooperative-sticky"));
        assert_eq!(strategy(&[(ASSIGNMENT.0, "range,roundrobin")]).as_deref(), Some("range,roundrobin"));
        assert_eq!(strategy(&[("group.protocol", "consumer")]), None);
    }
}
