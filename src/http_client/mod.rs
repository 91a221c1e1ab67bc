//! HTTP/1.1 as a client, for those who ask seldom: one question, one answer, a connection each.
//!
//! ```text
//!   Address ──▶ connect ──▶ (a proxy's tunnel) ──▶ secure ──▶ exchange: Request ──▶ Response
//! ```
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

pub use address::{Address, Credentials};
pub(crate) use exchange::{USER_AGENT, exchange};
pub(crate) use tls::connector;
pub(crate) use transport::{Transport, connect, secure};
