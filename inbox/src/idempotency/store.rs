//! Interface of the stores.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use thiserror::Error;

use super::claim::{BeginOutcome, BeginRequest, Claim, ExtendOutcome, FinishOutcome, Outcome};
use super::key::Key;

/// Storage of records. Each call may be repeated: the same call again changes nothing more.
pub trait Store: Send + Sync + 'static {
    /// Begins the work of a key, if no other owner does it and it is not finished.
    fn begin(
        &self,
        key: &Key,
        entry: &BeginRequest,
    ) -> impl Future<Output = Result<BeginOutcome, StoreError>> + Send;

    /// Extends the lease of a claim after a heartbeat of its owner.
    fn extend(
        &self,
        claim: &Claim,
        lease: Duration,
    ) -> impl Future<Output = Result<ExtendOutcome, StoreError>> + Send;

    /// Stores the outcome of a claim; the record is deleted after `keep`.
    fn finish(
        &self,
        claim: &Claim,
        ending: &Outcome,
        keep: Duration,
    ) -> impl Future<Output = Result<FinishOutcome, StoreError>> + Send;
}

/// Error of the store of the records.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store does not answer, or refuses the request.
    #[error("{store} cannot {doing}")]
    Failed {
        /// Name of the store.
        store: &'static str,
        /// Operation that failed.
        doing: &'static str,
        /// Cause, as returned by the store or its client.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The record has content that this version cannot read.
    #[error("{store} holds something else than a record under this key")]
    Unreadable {
        /// Name of the store.
        store: &'static str,
    },
}
