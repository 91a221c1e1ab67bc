use std::sync::Arc;
use std::time::Duration;

use tracing::Span;

use super::delivery::Delivery;
use crate::core::{FailureKind, Outcome, Uncharged};

/// What a consumer counts, by the names of OpenTelemetry's conventions for messaging. No keys and no values are in it. Without the feature `metrics` it counts nothing.
#[derive(Clone)]
pub(super) struct Telemetry {
    /// `messaging.consumer.group.name` is what the inbox calls the consumer.
    #[cfg(feature = "metrics")]
    consumer: Arc<str>,
    #[cfg(feature = "metrics")]
    topics: Arc<std::sync::Mutex<std::collections::HashMap<Arc<str>, Meters>>>,
}

/// What became of events in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Applied,
    Repeat,
    DeadLetter,
    /// It comes again from a retry topic.
    RetryTopic,
}

/// What is asked of Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// A dead letter is written, or an event to its retry topic.
    Send,
    /// Offsets are committed.
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

/// A span for a transaction. It has the offset when there is one event in it, and their number when there are more.
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

/// OpenTelemetry's `error.type`; nothing when it went well.
pub(super) fn error_type(outcome: &Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Done | Outcome::Closed => None,
        Outcome::Failed { kind: FailureKind::Retry, .. } => Some("retry"),
        Outcome::Failed { kind: FailureKind::Poison, .. } => Some("poison"),
        Outcome::Uncharged { reason: Uncharged::Conflict, .. } => Some("conflict"),
        Outcome::Uncharged { reason: Uncharged::Broken, .. } => Some("connection"),
        Outcome::Fenced => Some("fenced"),
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

    /// A message was read.
    pub(super) fn consumed(&self, topic: &Arc<str>) {
        self.of(topic, |meters| meters.consumed.increment(1));
    }

    /// Messages have ended.
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

    /// Messages wait in the table.
    pub(super) fn parked(&self, topic: &Arc<str>, count: usize) {
        self.of(topic, |meters| meters.parked.increment(u64::try_from(count).unwrap_or(u64::MAX)));
    }

    /// Kafka has answered after so long.
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

    fn consumer_label(&self) -> metrics::Label {
        metrics::Label::new(
            "messaging.consumer.group.name",
            metrics::SharedString::from(Arc::clone(&self.consumer)),
        )
    }

    /// A transaction took so long.
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

/// OpenTelemetry's.
#[cfg(feature = "metrics")]
const CONSUMED: &str = "messaging.client.consumed.messages";
/// OpenTelemetry's, in seconds.
#[cfg(feature = "metrics")]
const PROCESSED: &str = "messaging.process.duration";
/// OpenTelemetry's, in seconds.
#[cfg(feature = "metrics")]
const ASKED: &str = "messaging.client.operation.duration";
/// The inbox's own. One that fails again is written again.
#[cfg(feature = "metrics")]
const PARKED: &str = "outboxd.inbox.parked.messages";
/// The inbox's own: `consumed` is the sum of the outcomes and of what is not done yet.
#[cfg(feature = "metrics")]
const ENDED: &str = "outboxd.inbox.ended.messages";

#[cfg(feature = "metrics")]
#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use metrics::{
        Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString,
        Unit,
    };

    use super::*;

    /// What was recorded: each name with its labels and value.
    #[derive(Default)]
    struct Recorded(Arc<Mutex<Vec<String>>>);

    struct One(String, Arc<Mutex<Vec<String>>>);

    impl CounterFn for One {
        fn increment(&self, value: u64) {
            self.1.lock().unwrap().push(format!("{} {value}", self.0));
        }

        fn absolute(&self, _value: u64) {}
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
        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }
        fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::from_arc(self.one(key))
        }
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
