//! PostgreSQL: one replication connection of our own, one SQL connection of tokio-postgres.

mod options;

pub use options::*;
