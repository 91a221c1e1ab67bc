//! The schema registry: asks for the ids of schemas over Confluent's REST interface, which Apicurio and Karapace speak
//! too.
//!
//! ```text
//!   Registration ──protocol──▶ Request ──http (tls)──▶ Answer ──protocol──▶ SchemaId
//!                             └────── client: one address after the other ──────┘
//! ```
//!
//! Each request asks the source of the login for its credentials. When the registry refuses them, another value is tried at once.
//!
//! The other way round it is asked for the schemas that records were written with, which [`Schemas`] keeps.

mod client;
mod error;
mod form;
mod http;
mod login;
mod login_options;
mod options;
mod protocol;
mod registries;
mod schemas;
#[cfg(test)]
mod tests;
mod tls;

pub(crate) use client::Client;
pub(crate) use error::Error;
pub(crate) use login::LoginSources;
pub(crate) use options::Options;
#[cfg(test)]
pub(crate) use options::{Lookup, TlsOptions};
pub(crate) use registries::Registries;
pub(crate) use schemas::{Schemas, Written};

#[cfg(test)]
pub(crate) use crate::http_client::Address;
#[cfg(test)]
use login::{Form, Login};
