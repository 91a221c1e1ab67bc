//! Looks at the catalog that are due again and again: who looks, and what when nothing can be seen.

use std::pin::pin;
use std::time::Instant;

use tokio::time::timeout;

use crate::error::chain;
use crate::postgres::Error;
use crate::telemetry::{CatalogLook, Status, UNSEEN_MAX};

/// Looks once. A failure is the caller's to pass over: the stream tells when PostgreSQL is gone, and the next look may
/// succeed. When nothing has been seen for long, for whatever reason, that is told.
pub(super) async fn look<T>(
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
