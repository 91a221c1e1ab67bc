//! The schema registry: asks for the ids of schemas over Confluent's REST interface, which Apicurio and Karapace speak
//! too.
//!
//! ```text
//!   Registration ──protocol──▶ Request ──http (tls)──▶ Answer ──protocol──▶ SchemaId
//!                             └────── client: one address after the other ──────┘
//! ```

mod client;
mod error;
mod form;
mod http;
mod options;
mod protocol;
mod registries;
#[cfg(test)]
mod tests;
mod tls;

pub use client::Client;
pub use error::Error;
pub use options::{Lookup, Options, TlsOptions};
pub use registries::Registries;

pub use crate::http_client::{Address, Credentials};
