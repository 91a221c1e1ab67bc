//! Parts of a relay.

use super::background::file_settings::FileSettings;
use super::capture::route::Route;
use super::delivery::dead_letters::DeadLetters;
use super::delivery::notification_posts::NotificationPosts;
use super::options::Options;
use crate::kafka::{self, Producer};
use crate::outbox::MessageOutbox;
use crate::postgres::{self, Autocreate, SnapshotMode, TableFilter};
use crate::registry::Registries;

/// Everything the relay is made of, once the configuration is understood.
#[derive(Debug)]
pub struct RelayParts {
    /// Connection to PostgreSQL.
    pub postgres: postgres::Options,
    /// Connection to Kafka.
    pub kafka: kafka::Options,
    /// Limits and patience.
    pub relay: Options,
    /// Captured tables.
    pub tables: TableFilter,
    /// Conversion from rows to records.
    pub(crate) route: Route,
    /// Logical messages as an outbox, when they are one.
    pub messages: Option<MessageOutbox>,
    /// The producer.
    pub producer: Producer,
    /// Destination of events that cannot be sent.
    pub dead_letters: Option<DeadLetters>,
    /// Destination of posted notifications.
    pub(crate) notification_posts: Option<NotificationPosts>,
    /// The schema registries of the converters that need one.
    pub registries: Registries,
    /// Settings whose files ask for a restart when they change.
    pub(crate) file_settings: FileSettings,
}

/// Rows that each start sends from the captured tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowsAtStart {
    None,
    /// `snapshot.include.collection.list` or the user's own statements exclude rows.
    Some,
    All,
}

impl RelayParts {
    /// Returns whether a snapshot has all rows of all captured tables.
    pub(crate) fn has_whole_snapshots(&self) -> bool {
        self.tables.has_whole_snapshots() && self.postgres.snapshot.overrides.is_empty()
    }

    /// Returns the rows that each start sends from the captured tables.
    pub(crate) fn rows_at_each_start(&self) -> RowsAtStart {
        match self.postgres.snapshot.mode {
            SnapshotMode::Always if self.has_whole_snapshots() => RowsAtStart::All,
            SnapshotMode::Always => RowsAtStart::Some,
            SnapshotMode::Initial
            | SnapshotMode::InitialOnly
            | SnapshotMode::NoData
            | SnapshotMode::WhenNeeded => RowsAtStart::None,
        }
    }

    /// Returns whether a start without a captured table makes sense: when logical messages are events, and
    /// where the publication has, or may get, tables that are created later.
    pub(crate) fn may_capture_none(&self) -> bool {
        self.messages.is_some()
            || self.route.outbox().is_none() && self.postgres.publication.autocreate != Autocreate::Filtered
    }
}
