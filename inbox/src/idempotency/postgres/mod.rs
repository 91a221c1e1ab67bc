//! Records in PostgreSQL: a row for each key.
//!
//! A statement that may change the row and one that reads it are sent together, which takes one round trip and not two. No statement waits
//! for a transaction in which a claim is being finished, since other statements wait behind it on its connection.

mod connections;
mod purge;
mod statements;
mod store;

pub use store::PostgresStore;
