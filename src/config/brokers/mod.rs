//! Kafka's part of the configuration.

pub(super) mod bootstrap;
pub(super) mod credentials;
pub(super) mod jaas;
pub(super) mod kafka;
mod login;
pub(super) mod oauthbearer;
pub(super) mod producer;
mod tokens;
pub(super) mod topic_creation;
