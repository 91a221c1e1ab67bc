//! Topics in which events wait for another attempt, as in Spring for Apache Kafka: one topic for each wait.
//!
//! No event waits behind such an event: **the later events of its key are handled before it.** To keep the order through
//! failures, use [`Retry::park`](crate::core::Retry::park).
//!
//! # References
//!
//! `org.springframework.kafka.retrytopic`, and `KafkaHeaders` for the names. Numbers are those of Java's `ByteBuffer`,
//! times those of `BigInteger.toByteArray`.

mod record;

pub(crate) use record::{RetryRecord, is_retry_header};

use std::time::Duration;

/// Retry topics and their waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryTopics {
    waits: Vec<Duration>,
    naming: Naming,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Naming {
    Outboxd,
    Spring,
}

impl RetryTopics {
    /// Returns retry topics named `<topic>.<consumer>.retry.<wait>`, such as `orders.payments.retry.1m`. The consumer is
    /// part of the name, since another consumer of the topic would handle events at which it has not failed.
    #[must_use]
    pub fn new(waits: impl IntoIterator<Item = Duration>) -> Self {
        Self { waits: waits.into_iter().collect(), naming: Naming::Outboxd }
    }

    /// Returns retry topics named `<topic>-retry-<milliseconds>`, as in Spring.
    #[must_use]
    pub fn spring(waits: impl IntoIterator<Item = Duration>) -> Self {
        Self { waits: waits.into_iter().collect(), naming: Naming::Spring }
    }

    /// Returns the names of the retry topics of `topic`, in the order in which an event passes through them.
    #[must_use]
    pub fn names(&self, topic: &str, consumer: &str) -> Vec<String> {
        let name = |wait: &Duration| match self.naming {
            Naming::Outboxd => format!("{topic}.{consumer}.retry.{}", short(*wait)),
            Naming::Spring => format!("{topic}-retry-{}", wait.as_millis()),
        };
        self.waits.iter().map(name).collect()
    }

    /// Returns the next retry topic of an event that has failed, and how long it waits there. `None` after the last one.
    pub(crate) fn next(&self, topic: &str, origin: &str, consumer: &str) -> Option<(String, Duration)> {
        let names = self.names(origin, consumer);
        let next = names.iter().position(|name| name == topic).map_or(0, |at| at + 1);
        Some((names.into_iter().nth(next)?, *self.waits.get(next)?))
    }
}

/// Formats a wait in the largest unit that divides it.
fn short(wait: Duration) -> String {
    let millis = wait.as_millis();
    let units = [(3_600_000, "h"), (60_000, "m"), (1000, "s")];
    let unit = units.iter().find(|(unit, _)| millis >= *unit && millis.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{millis}ms"), |(unit, name)| format!("{}{name}", millis / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_goes_through_the_topics_in_their_order() {
        let waits = [Duration::from_secs(90), Duration::from_secs(300), Duration::from_millis(3_600_000)];
        let topics = RetryTopics::new(waits);
        let names = ["orders.payments.retry.90s", "orders.payments.retry.5m", "orders.payments.retry.1h"];
        assert_eq!(topics.names("orders", "payments"), names);
        let steps = [("orders", Some(names[0])), (names[0], Some(names[1])), (names[2], None)];
        for (topic, next) in steps {
            let found = topics.next(topic, "orders", "payments").map(|(name, _)| name);
            assert_eq!(found.as_deref(), next);
        }
        assert_eq!(RetryTopics::spring(waits).names("orders", "payments")[1], "orders-retry-300000");
    }
}
