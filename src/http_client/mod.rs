//! HTTP/1.1 as a client, for infrequent requests of the registry, the fetching of PostgreSQL and the probe:
//! one request, one response, a connection each. For repeated requests, such as those of the exporter of
//! spans, there is an [`Exchange`].
//!
//! ```text
//!   Address ──▶ connect ──▶ (a proxy's tunnel) ──▶ secure ──▶ exchange: Request ──▶ Response
//! ```
//!
//! This is hyper's own client, the one that the tree has anyway. reqwest 0.13 would follow redirects and use
//! proxies for us; it adds 42 packages to Cargo.lock, Unicode's tables for host names among them, and the
//! binary is near its limit.
//!
//! # Invariants
//! - Nothing is followed or tried again here, and only the wait for an answer's head is limited: the rest is the
//!   caller's.

mod address;
mod exchange;
#[cfg(test)]
pub(crate) mod test_server;
mod tls;
mod transport;

pub(crate) use address::{Address, Credentials};
pub(crate) use exchange::{Exchange, USER_AGENT, exchange};
pub(crate) use tls::connector;
pub(crate) use transport::{Transport, connect, secure};
