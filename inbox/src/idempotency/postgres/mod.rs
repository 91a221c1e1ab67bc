//! Records in PostgreSQL: a row for each key.
//!
//! What tells one round trip from two: a statement that may change the row and one that reads it are sent together. No
//! statement waits for a transaction in which a claim is being finished, since others wait behind it on its connection.

mod connections;
mod purge;
mod statements;
mod store;

pub use store::PostgresStore;
