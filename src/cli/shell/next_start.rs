//! Effect of the next start.

use std::sync::Arc;

use crate::error::chain;
use crate::postgres::Sql;
use crate::relay::{Error, NextStart, RelayParts};

/// Reports the next start's action on the slot: a summary, and the fix where it would not send everything.
pub(in crate::cli) async fn next_start(parts: &Arc<RelayParts>, sql: &Sql) -> (String, Option<String>) {
    in_words(NextStart::find(parts, sql).await)
}

/// Predicts the next start once the slot is dropped.
pub(in crate::cli) async fn next_start_without_slot(
    parts: &Arc<RelayParts>,
    sql: &Sql,
) -> (String, Option<String>) {
    in_words(NextStart::without_slot(parts, sql).await)
}

fn in_words(next: Result<NextStart, Error>) -> (String, Option<String>) {
    match next {
        Ok(next) => (next.summary(), next.fix()),
        Err(error) => (format!("the next outboxd run is unknown: {}", chain(&error)), None),
    }
}
