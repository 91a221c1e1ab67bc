//! Periodic polls of the catalog: their results, and the warning when they keep failing.

use std::pin::pin;
use std::time::Instant;

use tokio::time::timeout;

use crate::error::chain;
use crate::postgres::Error;
use crate::telemetry::{CatalogLook, Status, UNSEEN_MAX};

/// Polls once. The caller may ignore a failure: the stream fails when PostgreSQL is gone, and the next poll
/// may succeed. A long series of failures is reported, whatever the reason.
pub(in crate::relay) async fn look<T>(
    status: &Status,
    what: CatalogLook,
    looking: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let mut looking = pin!(looking);
    let outcome = loop {
        match timeout(UNSEEN_MAX, &mut looking).await {
            Ok(outcome) => break outcome,
            Err(_) => status.not_seen(
                what,
                "PostgreSQL does not answer: a lock, or a backend that hangs",
                Instant::now(),
            ),
        }
    };
    match &outcome {
        Ok(_) => status.seen(what, Instant::now()),
        Err(error) => status.not_seen(what, &chain(error), Instant::now()),
    }
    outcome
}
