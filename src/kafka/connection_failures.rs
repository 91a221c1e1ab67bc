use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;

/// What librdkafka calls a connection that breaks or cannot be made.
pub(super) const CONNECTION_FAILED: &str = "FAIL";

/// Keeps why a connection of a client failed last.
///
/// A question that is not answered in time says only that: `OperationTimedOut`. Why, librdkafka tells in its log.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionFailures(Arc<Mutex<Option<String>>>);

impl ConnectionFailures {
    /// The last one, which names the address.
    pub(super) fn last(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ClientContext for ConnectionFailures {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        if facility == CONNECTION_FAILED {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(without_thread(message).to_owned());
        }
        tracing::trace!(facility, message, "librdkafka");
    }
}

impl ConsumerContext for ConnectionFailures {}

/// A message in librdkafka's log begins with the name of its thread.
fn without_thread(message: &str) -> &str {
    match message.strip_prefix("[thrd:").and_then(|rest| rest.split_once("]: ")) {
        Some((_, rest)) => rest,
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_failure_is_kept_without_the_name_of_a_thread() {
        let failures = ConnectionFailures::default();
        let log = |facility, message| failures.log(RDKafkaLogLevel::Error, facility, message);
        log("FAIL", "[thrd:127.0.0.1:9/1]: 127.0.0.1:9/1: Connect to ipv4#127.0.0.1:9 failed: refused");
        log("CONNECT", "[thrd:main]: something else");
        assert_eq!(
            failures.last().as_deref(),
            Some("127.0.0.1:9/1: Connect to ipv4#127.0.0.1:9 failed: refused")
        );
        log("FAIL", "no thread");
        assert_eq!(failures.last().as_deref(), Some("no thread"));
    }
}
