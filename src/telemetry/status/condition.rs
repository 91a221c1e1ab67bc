//! Conditions of the components that the relay depends on.

use std::fmt;
use std::time::{Duration, Instant};

/// Interval in which a lasting outage is logged again: an outage must not flood the log.
const REMINDER_INTERVAL: Duration = Duration::from_secs(30);

/// Dependency of the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Component {
    /// The connections to PostgreSQL.
    Postgres,
    /// The replication slot.
    Slot,
    /// The brokers.
    Kafka,
    /// The schema registry. It is asked when a schema is first seen, and not at all without a converter that needs it.
    Registry,
}

impl Component {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Postgres, Self::Slot, Self::Kafka, Self::Registry];

    /// Returns the name in probes and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Slot => "slot",
            Self::Kafka => "kafka",
            Self::Registry => "registry",
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Condition of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Not tried yet.
    Unknown,
    /// Working.
    Up,
    /// Failing.
    Down {
        /// Why, in the words of the last error.
        reason: String,
        /// Fix, if the last error has one.
        fix: Option<String>,
        /// Since when.
        since: Instant,
        /// Time of the last log line.
        logged: Instant,
    },
}

impl Condition {
    /// Returns whether it works.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        matches!(self, Self::Up)
    }

    pub(super) fn recover(&mut self, component: Component, now: Instant) {
        match self {
            Self::Up => return,
            Self::Unknown => tracing::info!(%component, "component is up"),
            Self::Down { since, .. } => {
                let outage = now.saturating_duration_since(*since).as_secs();
                tracing::info!(%component, outage_seconds = outage, "component is up again");
            }
        }
        *self = Self::Up;
    }

    pub(super) fn fail(&mut self, component: Component, reason: String, fix: Option<String>, now: Instant) {
        let Self::Down { reason: last_reason, fix: last_fix, since, logged } = self else {
            tracing::warn!(%component, error = %reason, "component is down");
            *self = Self::Down { reason, fix, since: now, logged: now };
            return;
        };
        if now.saturating_duration_since(*logged) >= REMINDER_INTERVAL {
            let outage = now.saturating_duration_since(*since).as_secs();
            tracing::warn!(%component, error = %reason, outage_seconds = outage, "component is still down");
            *logged = now;
        }
        (*last_reason, *last_fix) = (reason, fix);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_keeps_its_beginning_and_its_last_reason() {
        let start = Instant::now();
        let later = start + Duration::from_secs(29);
        let mut condition = Condition::Unknown;
        condition.fail(Component::Kafka, "refused".into(), Some("wait".into()), start);
        condition.fail(Component::Kafka, "timed out".into(), None, later);
        let down = |logged| Condition::Down { reason: "timed out".into(), fix: None, since: start, logged };
        assert_eq!(condition, down(start));

        let reminded = start + REMINDER_INTERVAL;
        condition.fail(Component::Kafka, "timed out".into(), None, reminded);
        assert_eq!(condition, down(reminded));

        condition.recover(Component::Kafka, reminded);
        assert!(condition.is_up());
    }
}
