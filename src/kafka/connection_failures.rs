//! The reason of the last failed connection, from librdkafka's log: error codes do not contain it.

use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::producer::{DeliveryResult, ProducerContext};

use super::token_callback;

/// librdkafka's name of a connection that breaks or cannot be opened.
pub(super) const CONNECTION_FAILED: &str = "FAIL";

/// Reason for which a connection of a client failed last. A request that is not answered in time has only the
/// code `OperationTimedOut`; the reason is in librdkafka's log.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionFailures(Arc<Mutex<Option<String>>>);

impl ConnectionFailures {
    /// Returns the last one, which names the address.
    pub(super) fn last(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records that a client has no token to log in with.
    pub(super) fn no_token(&self, reason: &str) {
        self.set(format!("no SASL OAUTHBEARER token: {reason}"));
    }

    fn set(&self, reason: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }
}

impl ClientContext for ConnectionFailures {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, property: Option<&str>) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        token_callback::token(property).inspect_err(|error| self.no_token(&error.to_string()))
    }

    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        if facility == CONNECTION_FAILED {
            self.set(without_thread(message).to_owned());
        }
        tracing::trace!(facility, message, "librdkafka");
    }
}

impl ConsumerContext for ConnectionFailures {}

/// For a producer whose flush is waited for.
impl ProducerContext for ConnectionFailures {
    type DeliveryOpaque = ();

    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}

/// Returns a message of librdkafka's log without the name of its thread, which it begins with.
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
