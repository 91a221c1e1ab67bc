//! Connections: sockets, TLS and login; the stream of a replication connection, and statements on an SQL connection.

pub(super) mod connection;
pub(super) mod credential;
pub(super) mod login;
pub(super) mod peer;
mod resting;
mod socket;
pub(super) mod sql;
pub(super) mod stream;
mod tls;
