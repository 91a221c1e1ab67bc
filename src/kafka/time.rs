//! The time limit of a series of blocking requests.

use std::time::{Duration, Instant};

use rdkafka::error::{KafkaResult, RDKafkaErrorCode as Code};
use tokio_util::sync::CancellationToken;

/// Time that a call may block before it is checked whether its result is still needed.
const SLICE: Duration = Duration::from_secs(2);

/// Time for requests that block, in all.
pub(super) struct Time<'t> {
    deadline: Instant,
    stop: &'t CancellationToken,
}

impl<'t> Time<'t> {
    pub(super) fn new(patience: Duration, stop: &'t CancellationToken) -> Self {
        Self { deadline: Instant::now() + patience, stop }
    }

    /// Returns the time that the next call may block.
    pub(super) fn slice(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now()).clamp(Duration::from_millis(1), SLICE)
    }

    /// Repeats a request until there is an answer, or the time is over.
    pub(super) fn insist<T>(&self, ask: impl Fn(Duration) -> KafkaResult<T>) -> KafkaResult<T> {
        loop {
            match ask(self.slice()) {
                Err(error)
                    if error.rdkafka_error_code() == Some(Code::OperationTimedOut) && !self.is_over() => {}
                answer => return answer,
            }
        }
    }

    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.deadline || self.stop.is_cancelled()
    }
}
