use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::claim::{Claim, Extended};
use super::heartbeat::{Beat, Heartbeat};
use super::store::Store;

/// The lease is lost, or may be soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the lease is lost: another one may be at it")]
pub struct Lost;

/// Keeps a claim alive for as long as this value lives, on a task of its own: also while the work does not yield.
#[derive(Debug)]
pub(crate) struct Hold {
    lost: CancellationToken,
    _keeper: JoinSet<()>,
}

impl Hold {
    /// For a claim that was asked for at this time.
    pub(crate) fn start<S: Store>(store: Arc<S>, claim: Claim, asked: Instant, lease: Duration) -> Self {
        let lost = CancellationToken::new();
        let mut keeper = JoinSet::new();
        let heartbeat = Heartbeat::new(asked, lease, fastrand::f64());
        keeper.spawn(keep(store, claim, lease, heartbeat, lost.clone()));
        Self { lost, _keeper: keeper }
    }

    /// Fires before the lease can end.
    pub(crate) fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Works until it is done or the lease is lost; then the work is dropped where it is.
    pub(crate) async fn guard<T>(&self, work: impl Future<Output = T>) -> Result<T, Lost> {
        tokio::select! {
            // Who has lost the lease does not begin the next step.
            biased;
            () = self.lost.cancelled() => Err(Lost),
            done = work => Ok(done),
        }
    }
}

async fn keep<S: Store>(
    store: Arc<S>,
    claim: Claim,
    lease: Duration,
    mut heartbeat: Heartbeat,
    lost: CancellationToken,
) {
    // Also when this task ends in a way that nobody has thought of.
    let lost = lost.drop_guard();
    loop {
        match heartbeat.turn(Instant::now()) {
            Beat::Wait(until) => tokio::time::sleep_until(until.into()).await,
            Beat::Lost => {
                tracing::warn!(key = %claim.key, "the lease is lost: the store did not answer in time");
                return;
            }
            Beat::Send => {
                let sent = Instant::now();
                let extended = store.extend(&claim, lease);
                match tokio::time::timeout_at(heartbeat.end().into(), extended).await {
                    Ok(Ok(Extended::Yes)) => heartbeat.extended(sent, fastrand::f64()),
                    Ok(Ok(Extended::Ended)) => {
                        lost.disarm();
                        return;
                    }
                    Ok(Ok(Extended::Fenced)) => {
                        tracing::warn!(key = %claim.key, "the lease is lost: another one has it");
                        return;
                    }
                    Ok(Err(error)) => {
                        tracing::debug!(key = %claim.key, %error, "cannot extend the lease yet");
                        heartbeat.failed(Instant::now());
                    }
                    Err(_elapsed) => heartbeat.failed(Instant::now()),
                }
            }
        }
    }
}
