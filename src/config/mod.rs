//! Debezium's configuration, read from files, environment and command line.
//!
//! ```text
//! files ─ json, yaml, … ────┐                                        ┌ check: unknown, refused, not used
//! environment ─────────────┼─ placeholder ─ spelling ─ Settings ────┤
//! -X key=value ────────────┘                (later wins)            └ read: postgres, producer, router ─ Config
//! ```
//!
//! Lower layers do not import this module: it converts text into their options. A [`Draft`] collects every mistake, including those
//! in the options that other modules read, so that one run reports all of them. `keys.tsv` lists every known key and its treatment.

mod brokers;
mod draft;
mod error;
mod features;
mod known;
mod load;
mod notice;
mod read;
mod server;
mod shown;
mod source;

pub(crate) use brokers::kafka::KafkaConfig;
pub(crate) use draft::Draft;
pub(crate) use error::{ConfigError, Problem};
pub(crate) use load::Config;
pub(crate) use notice::{Notice, NoticeKind};
pub(crate) use server::database::DatabaseConfig;
pub(crate) use shown::{Portable, ShownConfig, ShownSetting};
pub use source::layers::Sources;
pub(crate) use source::settings::{holds_secret, holds_user};

#[cfg(test)]
mod tests;
