//! Metrics and spans of a consumer.

use std::sync::Arc;
use std::time::Duration;

use tracing::Span;

use super::delivery::Delivery;
use crate::core::{FailureKind, Outcome, TopicStanding, Uncharged};

/// Metrics of a consumer, with the names of OpenTelemetry's conventions for messaging. They contain no keys and no values.
/// Without the feature `metrics`, nothing is recorded.
#[derive(Clone)]
pub(super) struct Telemetry {
    /// Name of the consumer, for the label `messaging.consumer.group.name`.
    #[cfg(feature = "metrics")]
    consumer: Arc<str>,
    #[cfg(feature = "metrics")]
    topics: Arc<std::sync::Mutex<std::collections::HashMap<Arc<str>, Meters>>>,
}

/// State of each topic.
type Standing = std::collections::BTreeMap<Arc<str>, TopicStanding>;

/// Final outcome of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Applied,
    Repeat,
    DeadLetter,
    /// Written to a retry topic, from which the event is read again.
    RetryTopic,
}

/// Request to Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// Write of a dead letter, or of an event to its retry topic.
    Send,
    /// Commit of offsets.
    Commit,
}

#[cfg(feature = "metrics")]
struct Meters {
    consumed: metrics::Counter,
    applied: metrics::Counter,
    repeats: metrics::Counter,
    dead_letters: metrics::Counter,
    retry_topic: metrics::Counter,
    parked: metrics::Counter,
    labels: [metrics::Label; 3],
}

/// Returns a span for a transaction. It contains the offset if the transaction has one event, and the number of events if
/// it has more.
pub(super) fn span(consumer: &str, deliveries: &[Delivery]) -> Span {
    let Some(first) = deliveries.first() else { return Span::none() };
    let span = tracing::info_span!(
        "process",
        otel.kind = "consumer",
        messaging.system = "kafka",
        messaging.operation.name = "process",
        messaging.operation.type = "process",
        messaging.destination.name = &*first.topic,
        messaging.destination.partition.id = first.partition,
        messaging.consumer.group.name = consumer,
        messaging.kafka.offset = tracing::field::Empty,
        messaging.message.id = tracing::field::Empty,
        messaging.batch.message_count = tracing::field::Empty,
        traceparent = tracing::field::Empty,
        error.type = tracing::field::Empty,
    );
    if span.is_disabled() {
        return span;
    }
    if let [delivery] = deliveries {
        span.record("messaging.kafka.offset", delivery.offset).record("messaging.message.id", delivery.id());
        if let Some(parent) = delivery.header("traceparent") {
            span.record("traceparent", parent);
        }
    } else {
        span.record("messaging.batch.message_count", deliveries.len());
    }
    span
}

/// Returns OpenTelemetry's `error.type`; `None` on success.
pub(super) fn error_type(outcome: &Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Done | Outcome::Repeated | Outcome::Closed => None,
        Outcome::Failed { kind: FailureKind::Retry, .. } => Some("retry"),
        Outcome::Failed { kind: FailureKind::Poison, .. } => Some("poison"),
        Outcome::Uncharged { reason: Uncharged::Conflict, .. } => Some("conflict"),
        Outcome::Uncharged { reason: Uncharged::Broken, .. } => Some("connection"),
        Outcome::Fenced | Outcome::Moved => Some("fenced"),
        Outcome::Unavailable => Some("unavailable"),
    }
}

#[cfg(not(feature = "metrics"))]
impl Telemetry {
    pub(super) fn new(_consumer: Arc<str>) -> Self {
        Self {}
    }

    pub(super) fn consumed(&self, _topic: &Arc<str>) {}

    pub(super) fn ended(&self, _topic: &Arc<str>, _end: End, _count: usize) {}

    pub(super) fn parked(&self, _topic: &Arc<str>, _count: usize) {}

    pub(super) fn processed(&self, _topic: &Arc<str>, _took: Duration, _error: Option<&'static str>) {}

    pub(super) fn asked(&self, _operation: Operation, _topic: Option<&str>, _took: Duration, _is_done: bool) {
    }

    pub(super) fn standing(&self, _topics: &Standing, _is_tripped: bool, _now_ms: i64) {}
}

#[cfg(feature = "metrics")]
impl Telemetry {
    pub(super) fn new(consumer: Arc<str>) -> Self {
        metrics::describe_counter!(CONSUMED, "Messages that were read from Kafka.");
        metrics::describe_counter!(
            ENDED,
            "Messages that were applied, were repeats, became dead letters, or went to retry topics."
        );
        metrics::describe_counter!(PARKED, "Messages that were written to the table to wait there.");
        metrics::describe_gauge!(WAITING, "Messages that wait in the table.");
        metrics::describe_gauge!(BLOCKED, "Keys of which a message waits in the table.");
        metrics::describe_gauge!(
            OLDEST,
            metrics::Unit::Seconds,
            "How old the oldest message is that was read and has not ended."
        );
        metrics::describe_gauge!(
            TRIPPED,
            "1 while everything fails, so that a few messages at a time are tried."
        );
        metrics::describe_histogram!(
            ASKED,
            metrics::Unit::Seconds,
            "How long Kafka took to accept a message or offsets."
        );
        metrics::describe_histogram!(
            PROCESSED,
            metrics::Unit::Seconds,
            "How long a transaction took, with its handlers."
        );
        Self { consumer, topics: Arc::default() }
    }

    /// Counts a message that was read.
    pub(super) fn consumed(&self, topic: &Arc<str>) {
        self.of(topic, |meters| meters.consumed.increment(1));
    }

    /// Counts messages that have ended.
    pub(super) fn ended(&self, topic: &Arc<str>, end: End, count: usize) {
        self.of(topic, |meters| {
            let counter = match end {
                End::Applied => &meters.applied,
                End::Repeat => &meters.repeats,
                End::DeadLetter => &meters.dead_letters,
                End::RetryTopic => &meters.retry_topic,
            };
            counter.increment(u64::try_from(count).unwrap_or(u64::MAX));
        });
    }

    /// Counts messages that were written to the table to wait there.
    pub(super) fn parked(&self, topic: &Arc<str>, count: usize) {
        self.of(topic, |meters| meters.parked.increment(u64::try_from(count).unwrap_or(u64::MAX)));
    }

    /// Records the time that Kafka took to answer.
    pub(super) fn asked(&self, operation: Operation, topic: Option<&str>, took: Duration, is_done: bool) {
        let (name, of) = match operation {
            Operation::Send => ("send", "send"),
            Operation::Commit => ("commit", "settle"),
        };
        let topic = topic.map(|topic| metrics::Label::new("messaging.destination.name", topic.to_owned()));
        let error = (!is_done).then(|| metrics::Label::from_static_parts("error.type", "_OTHER"));
        let labels = [
            metrics::Label::from_static_parts("messaging.system", "kafka"),
            metrics::Label::from_static_parts("messaging.operation.name", name),
            metrics::Label::from_static_parts("messaging.operation.type", of),
            self.consumer_label(),
        ];
        let labels: Vec<_> = labels.into_iter().chain(topic).chain(error).collect();
        metrics::histogram!(ASKED, labels).record(took);
    }

    /// Sets the gauges of all topics.
    pub(super) fn standing(&self, topics: &Standing, is_tripped: bool, now_ms: i64) {
        let tripped = if is_tripped { 1.0 } else { 0.0 };
        metrics::gauge!(TRIPPED, vec![self.consumer_label()]).set(tripped);
        let mut known = self.topics.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for topic in topics.keys() {
            known.entry(Arc::clone(topic)).or_insert_with(|| self.meters(topic));
        }
        // A topic of which this process holds no partition any more is set to 0.
        for (topic, meters) in known.iter() {
            let TopicStanding { parked, blocked, oldest_ms } = topics.get(topic).copied().unwrap_or_default();
            let age_ms = oldest_ms.map_or(0, |oldest| now_ms.saturating_sub(oldest).max(0));
            let labels = || meters.labels.to_vec();
            metrics::gauge!(WAITING, labels()).set(number(parked));
            metrics::gauge!(BLOCKED, labels()).set(number(blocked));
            metrics::gauge!(OLDEST, labels()).set(Duration::from_millis(age_ms.unsigned_abs()).as_secs_f64());
        }
    }

    fn consumer_label(&self) -> metrics::Label {
        metrics::Label::new(
            "messaging.consumer.group.name",
            metrics::SharedString::from(Arc::clone(&self.consumer)),
        )
    }

    /// Records the time that a transaction took.
    pub(super) fn processed(&self, topic: &Arc<str>, took: Duration, error: Option<&'static str>) {
        self.of(topic, |meters| {
            let error = error.map(|error| metrics::Label::from_static_parts("error.type", error));
            let labels: Vec<_> = meters.labels.iter().cloned().chain(error).collect();
            metrics::histogram!(PROCESSED, labels).record(took);
        });
    }

    fn of(&self, topic: &Arc<str>, record: impl FnOnce(&Meters)) {
        let mut topics = self.topics.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match topics.get(topic) {
            Some(meters) => record(meters),
            None => record(topics.entry(Arc::clone(topic)).or_insert_with(|| self.meters(topic))),
        }
    }

    fn meters(&self, topic: &Arc<str>) -> Meters {
        use metrics::{Label, SharedString};
        let labels = [
            Label::from_static_parts("messaging.system", "kafka"),
            Label::new("messaging.destination.name", SharedString::from(Arc::clone(topic))),
            self.consumer_label(),
        ];
        let ended = |outcome| {
            let outcome = Label::from_static_parts("outcome", outcome);
            metrics::counter!(ENDED, labels.iter().cloned().chain([outcome]).collect::<Vec<_>>())
        };
        Meters {
            consumed: metrics::counter!(CONSUMED, labels.to_vec()),
            applied: ended("applied"),
            repeats: ended("repeat"),
            dead_letters: ended("dead letter"),
            retry_topic: ended("retry topic"),
            parked: metrics::counter!(PARKED, labels.to_vec()),
            labels,
        }
    }
}

/// OpenTelemetry's counter of messages that were read.
#[cfg(feature = "metrics")]
const CONSUMED: &str = "messaging.client.consumed.messages";
/// OpenTelemetry's histogram of the time of a transaction, in seconds.
#[cfg(feature = "metrics")]
const PROCESSED: &str = "messaging.process.duration";
/// OpenTelemetry's histogram of the time of a request to Kafka, in seconds.
#[cfg(feature = "metrics")]
const ASKED: &str = "messaging.client.operation.duration";
/// The inbox's own gauge: events in the table, of the partitions that this process holds.
#[cfg(feature = "metrics")]
const WAITING: &str = "outboxd.inbox.parked";
/// The inbox's own gauge: keys of which an event waits in the table.
#[cfg(feature = "metrics")]
const BLOCKED: &str = "outboxd.inbox.blocked.keys";
/// The inbox's own gauge: age of the oldest event that was read and has not ended, in seconds.
#[cfg(feature = "metrics")]
const OLDEST: &str = "outboxd.inbox.oldest.age";
/// The inbox's own gauge: 1 while everything fails, so that a few events at a time are tried.
#[cfg(feature = "metrics")]
const TRIPPED: &str = "outboxd.inbox.guard.tripped";

/// Converts a count to the value of a gauge.
#[cfg(feature = "metrics")]
fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

/// The inbox's own counter of messages written to the table. A message that fails again is counted again.
#[cfg(feature = "metrics")]
const PARKED: &str = "outboxd.inbox.parked.messages";
/// The inbox's own counter: `consumed` is the sum of all outcomes and of the messages that have not ended.
#[cfg(feature = "metrics")]
const ENDED: &str = "outboxd.inbox.ended.messages";

#[cfg(feature = "metrics")]
#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use metrics::{
        Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
        SharedString, Unit,
    };

    use super::*;

    /// Recorded metrics: each name with its labels and value.
    #[derive(Default)]
    struct Recorded(Arc<Mutex<Vec<String>>>);

    struct One(String, Arc<Mutex<Vec<String>>>);

    impl CounterFn for One {
        fn increment(&self, value: u64) {
            self.1.lock().unwrap().push(format!("{} {value}", self.0));
        }

        fn absolute(&self, _value: u64) {}
    }

    impl GaugeFn for One {
        fn increment(&self, _value: f64) {}

        fn decrement(&self, _value: f64) {}

        fn set(&self, value: f64) {
            self.1.lock().unwrap().push(format!("{} {value}", self.0));
        }
    }

    impl HistogramFn for One {
        fn record(&self, value: f64) {
            self.1.lock().unwrap().push(format!("{} {value}", self.0));
        }
    }

    impl Recorded {
        fn one(&self, key: &Key) -> Arc<One> {
            let labels: Vec<_> =
                key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            Arc::new(One(format!("{} {}", key.name(), labels.join(",")), Arc::clone(&self.0)))
        }
    }

    impl Recorder for Recorded {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            Counter::from_arc(self.one(key))
        }
        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(self.one(key))
        }
        fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::from_arc(self.one(key))
        }
    }

    #[test]
    fn the_state_is_reported_until_others_have_the_topic() {
        let recorded = Recorded::default();
        metrics::with_local_recorder(&recorded, || {
            let (telemetry, topic) = (Telemetry::new(Arc::from("payments")), Arc::from("orders"));
            let standing = TopicStanding { parked: 7, blocked: 2, oldest_ms: Some(1_000) };
            telemetry.standing(&Standing::from([(topic, standing)]), true, 3_500);
            telemetry.standing(&Standing::new(), false, 4_000);
        });
        let told = recorded.0.lock().unwrap();
        let values = |name: &str| -> Vec<&str> {
            let of = told.iter().filter(|line| line.starts_with(&format!("{name} ")));
            of.map(|line| line.rsplit(' ').next().unwrap()).collect()
        };
        assert_eq!(values(TRIPPED), ["1", "0"]);
        assert_eq!(
            [values(WAITING), values(BLOCKED), values(OLDEST)],
            [["7", "0"], ["2", "0"], ["2.5", "0"]]
        );
    }

    #[test]
    fn what_is_counted_has_the_names_of_opentelemetry() {
        let recorded = Recorded::default();
        metrics::with_local_recorder(&recorded, || {
            let (telemetry, topic) = (Telemetry::new(Arc::from("payments")), Arc::from("orders"));
            telemetry.consumed(&topic);
            telemetry.ended(&topic, End::Applied, 2);
            telemetry.ended(&topic, End::DeadLetter, 1);
            telemetry.ended(&topic, End::RetryTopic, 4);
            telemetry.parked(&topic, 3);
            telemetry.processed(&topic, Duration::from_millis(500), Some("retry"));
            telemetry.asked(Operation::Send, Some("dead"), Duration::from_millis(250), true);
            telemetry.asked(Operation::Commit, None, Duration::from_millis(750), false);
        });
        let client = |name, of| {
            format!(
                "messaging.client.operation.duration messaging.system=kafka,messaging.operation.name={name},\
                 messaging.operation.type={of},messaging.consumer.group.name=payments"
            )
        };
        let labels =
            "messaging.system=kafka,messaging.destination.name=orders,messaging.consumer.group.name=payments";
        assert_eq!(
            *recorded.0.lock().unwrap(),
            [
                format!("messaging.client.consumed.messages {labels} 1"),
                format!("outboxd.inbox.ended.messages {labels},outcome=applied 2"),
                format!("outboxd.inbox.ended.messages {labels},outcome=dead letter 1"),
                format!("outboxd.inbox.ended.messages {labels},outcome=retry topic 4"),
                format!("outboxd.inbox.parked.messages {labels} 3"),
                format!("messaging.process.duration {labels},error.type=retry 0.5"),
                format!("{},messaging.destination.name=dead 0.25", client("send", "send")),
                format!("{},error.type=_OTHER 0.75", client("commit", "settle")),
            ]
        );
    }
}
