//! Claims that are extended during the work.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::claim::{Claim, ExtendOutcome};
use super::heartbeat::{Heartbeat, HeartbeatAction};
use super::store::Store;

/// Error of work whose lease is lost, or may be lost soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the lease is lost: another one may be at it")]
pub struct LeaseLost;

/// Keeper of a claim: extends the lease on a task of its own as long as this value exists, also while the work does not yield.
#[derive(Debug)]
pub(crate) struct Hold {
    lost: CancellationToken,
    end: End,
    _keeper: JoinSet<()>,
}

/// Time until which the claim is held; `None` once the work is finished, since then no other owner can get the claim.
#[derive(Debug, Clone)]
struct End(Arc<Mutex<Option<Instant>>>);

impl End {
    fn set(&self, end: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = end;
    }

    fn has_passed(&self, now: Instant) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|end| now >= end)
    }
}

impl Hold {
    /// Starts to extend a claim that was requested at the time `asked`.
    pub(crate) fn start<S: Store>(store: Arc<S>, claim: Claim, asked: Instant, lease: Duration) -> Self {
        let lost = CancellationToken::new();
        let mut keeper = JoinSet::new();
        let heartbeat = Heartbeat::new(asked, lease, fastrand::f64());
        let end = End(Arc::new(Mutex::new(Some(heartbeat.end()))));
        keeper.spawn(keep(store, claim, lease, heartbeat, lost.clone(), end.clone()));
        Self { lost, end, _keeper: keeper }
    }

    /// Returns the token that is cancelled before the lease can end.
    pub(crate) fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Runs `work` until it is done or the lease is lost; in the latter case the work is dropped where it is.
    pub(crate) async fn guard<T>(&self, work: impl Future<Output = T>) -> Result<T, LeaseLost> {
        tokio::select! {
            // After the lease is lost, the work does not begin its next step.
            biased;
            () = self.lost.cancelled() => Err(LeaseLost),
            // In a process that was suspended, the work may be polled before the keeper.
            done = work => if self.end.has_passed(Instant::now()) { Err(LeaseLost) } else { Ok(done) },
        }
    }
}

async fn keep<S: Store>(
    store: Arc<S>,
    claim: Claim,
    lease: Duration,
    mut heartbeat: Heartbeat,
    lost: CancellationToken,
    end: End,
) {
    // The guard cancels the token also when this task ends unexpectedly.
    let lost = lost.drop_guard();
    loop {
        match heartbeat.turn(Instant::now()) {
            HeartbeatAction::Wait(until) => tokio::time::sleep_until(until.into()).await,
            HeartbeatAction::Lost => {
                tracing::warn!(key = %claim.key, "the lease is lost: the store did not answer in time");
                return;
            }
            HeartbeatAction::Send => {
                let sent = Instant::now();
                let extended = store.extend(&claim, lease);
                match tokio::time::timeout_at(heartbeat.end().into(), extended).await {
                    Ok(Ok(ExtendOutcome::Extended)) => {
                        heartbeat.extended(sent, fastrand::f64());
                        end.set(Some(heartbeat.end()));
                    }
                    Ok(Ok(ExtendOutcome::AlreadyFinished)) => {
                        end.set(None);
                        lost.disarm();
                        return;
                    }
                    Ok(Ok(ExtendOutcome::Fenced)) => {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Has no keeper, as in a process that was suspended.
    #[tokio::test]
    async fn work_that_ends_after_the_claim_has_lost_it() {
        let of = |end: Instant| Hold {
            lost: CancellationToken::new(),
            end: End(Arc::new(Mutex::new(Some(end)))),
            _keeper: JoinSet::new(),
        };
        let now = Instant::now();
        assert_eq!(of(now).guard(async { 1 }).await, Err(LeaseLost));
        assert_eq!(of(now + Duration::from_secs(60)).guard(async { 1 }).await, Ok(1));
        let over = of(now);
        over.end.set(None);
        assert_eq!(over.guard(async { 1 }).await, Ok(1));
    }
}
