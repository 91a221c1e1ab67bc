use std::error::Error;
use std::future::Future;
use std::time::Duration;

use thiserror::Error;

use super::claim::{BeginOutcome, BeginRequest, Claim, ExtendOutcome, FinishOutcome, Outcome};
use super::key::Key;

/// Where records are kept. Each call is one round trip, and the same call again changes nothing more.
pub trait Store: Send + Sync + 'static {
    /// Somebody wants to begin.
    fn begin(
        &self,
        key: &Key,
        entry: &BeginRequest,
    ) -> impl Future<Output = Result<BeginOutcome, StoreError>> + Send;

    /// Whoever has begun is alive.
    fn extend(
        &self,
        claim: &Claim,
        lease: Duration,
    ) -> impl Future<Output = Result<ExtendOutcome, StoreError>> + Send;

    /// Whoever has begun has ended; the record is kept for so long.
    fn finish(
        &self,
        claim: &Claim,
        ending: &Outcome,
        keep: Duration,
    ) -> impl Future<Output = Result<FinishOutcome, StoreError>> + Send;
}

/// What goes wrong between a service and the store of its records.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store does not answer, or refuses.
    #[error("{store} cannot {doing}")]
    Failed {
        /// Which store.
        store: &'static str,
        /// What was asked of it.
        doing: &'static str,
        /// What it says.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The record holds what this version does not know.
    #[error("{store} holds something else than a record under this key")]
    Unreadable {
        /// Which store.
        store: &'static str,
    },
}
