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

pub(crate) use client::Client;
pub(crate) use error::Error;
pub(crate) use options::Options;
#[cfg(test)]
pub(crate) use options::{Lookup, TlsOptions};
pub(crate) use registries::Registries;

#[cfg(test)]
pub(crate) use crate::http_client::{Address, Credentials};
