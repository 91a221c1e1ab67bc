use super::dead_letters::DeadLetters;
use super::notification_posts::NotificationPosts;
use super::options::Options;
use super::route::Route;
use crate::kafka::{self, Producer};
use crate::outbox::MessageOutbox;
use crate::postgres::{self, Autocreate, TableFilter};
use crate::registry::Registries;

/// Everything the relay is made of, once the configuration is understood.
#[derive(Debug)]
pub struct RelayParts {
    /// How PostgreSQL is reached.
    pub postgres: postgres::Options,
    /// How Kafka is reached.
    pub kafka: kafka::Options,
    /// Limits and patience.
    pub relay: Options,
    /// Which tables are captured.
    pub tables: TableFilter,
    /// What rows become.
    pub(crate) route: Route,
    /// Logical messages as an outbox, when they are one.
    pub messages: Option<MessageOutbox>,
    /// The producer.
    pub producer: Producer,
    /// Where events go that cannot be sent.
    pub dead_letters: Option<DeadLetters>,
    /// Where notifications are posted to.
    pub(crate) notification_posts: Option<NotificationPosts>,
    /// The schema registries of the converters that need one.
    pub registries: Registries,
}

impl RelayParts {
    /// Whether a start without a captured table makes sense: when logical messages are events, and where the publication has, or may
    /// get, tables that are made later.
    pub(crate) fn may_capture_none(&self) -> bool {
        self.messages.is_some()
            || self.route.outbox().is_none() && self.postgres.publication.autocreate != Autocreate::Filtered
    }
}
