//! PostgreSQL's part of the configuration.

pub(super) mod columns;
mod credentials;
pub(super) mod database;
pub(super) mod databases;
pub(super) mod postgres;
