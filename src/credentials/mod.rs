//! Credentials, asked for at each connection.
//!
//! ```text
//!   a connection ──▶ Source::fetch ──▶ literal · value read again · command · password file · IAM · identity ──▶ Credential
//!        └── refused ──▶ Source::forget ──▶ fetch again: another value is tried at once
//! ```
//!
//! A client of Kafka asks from its own thread: `Tokens::current` returns a token at once while one is valid, and `Source::fetch` runs
//! in the background.
//!
//! # Invariants
//! - No error, log line or `Debug` of this module has a secret.
//! - Each source has a time limit. One request runs at a time, and those that wait for it share its answer.
//! - Buffers with secrets are wiped when they are dropped, as far as outboxd owns them.
//! - A value with an expiry is used until shortly before it; one without is asked for at each connection.

mod answer;
mod aws;
mod command;
mod error;
mod http;
mod identity;
mod jwt;
mod mask;
mod password_file;
mod service_file;
mod source;
mod token_file;
mod tokens;
mod vault;
mod wiped_json;

pub(crate) use aws::{Environment, IamToken, Role, region_of_kafka, region_of_rds};
pub(crate) use command::Command;
pub(crate) use error::Error;
pub(crate) use identity::{Azure, ClientCredentials, Google, Identity, Variables};
pub(crate) use password_file::PasswordFile;
pub(crate) use service_file::Service;
pub use source::Source;
pub(crate) use source::{Credential, Reread, Target};
pub(crate) use token_file::TokenFile;
pub(crate) use tokens::Tokens;
pub(crate) use vault::{Vault, VaultError};
