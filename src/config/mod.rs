//! Debezium's configuration, read from files, environment and command line.
//!
//! ```text
//! files ─ json, properties ┐                                        ┌ check: unknown, refused, not used
//! environment ─────────────┼─ placeholder ─ spelling ─ Settings ────┤
//! -X key=value ────────────┘                (later wins)            └ read: postgres, producer, router ─ Config
//! ```
//!
//! Nothing below imports this module: it makes the options of the others from text. Every mistake is collected in a [`Draft`], with
//! those of the options that other modules read, so that one run shows them all. `keys.tsv` holds every known key and what becomes of it.

mod bootstrap;
mod check;
mod cleanup;
mod columns;
#[cfg(test)]
mod compatibility;
mod converters;
mod credentials;
mod database;
mod databases;
mod dead_letters;
mod defaults;
#[cfg(test)]
mod documented;
mod draft;
mod environment;
mod error;
mod file;
mod guarantee;
mod jaas;
mod json;
mod kafka;
mod keys;
mod layers;
mod left_out;
mod load;
mod lookup;
mod metric_tags;
mod notice;
mod oauthbearer;
mod offset;
mod placeholder;
mod position;
mod postgres;
mod producer;
mod profiles;
mod properties;
mod read;
mod router;
mod settings;
mod shown;
mod signals;
mod snapshot;
mod spelling;
mod topic_creation;

pub(crate) use database::DatabaseConfig;
pub(crate) use draft::Draft;
pub(crate) use error::{ConfigError, Problem};
pub(crate) use kafka::KafkaConfig;
pub use layers::Sources;
pub(crate) use load::Config;
pub(crate) use notice::{Notice, NoticeKind};
pub(crate) use settings::{holds_secret, holds_user};
pub(crate) use shown::{Portable, ShownConfig, ShownSetting};

#[cfg(test)]
mod tests;
