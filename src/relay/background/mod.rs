//! Tasks that run beside a session.

pub(super) mod cleaner;
pub(super) mod file_settings;
pub(super) mod heartbeat_query;
pub(super) mod kafka_login;
pub(super) mod signal_channels;
pub(super) mod slot_guard;
pub(super) mod watcher;
