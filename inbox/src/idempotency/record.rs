//! Rules of records, which every store implements.

use std::time::Duration;

use super::answer::Answer;
use super::claim::{BeginOutcome, BeginRequest, Claim, ExtendOutcome, Fence, FinishOutcome, Outcome, Owner};
use super::fingerprint::Fingerprint;
use super::key::Key;

/// Record of a key. Its functions are the rules; each store implements them in its own language, and its tests compare the two.
///
/// Times are since 1970, by the store's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub(super) fingerprint: Fingerprint,
    pub(super) owner: Owner,
    pub(super) fence: Fence,
    pub(super) attempts: u32,
    pub(super) state: State,
    /// End of the last claim's lease.
    pub(super) lease_end: Duration,
    pub(super) expires: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    Started,
    Completed(Answer),
    Failed(Answer),
    Open,
}

impl Record {
    /// Begins a record for the owner of `entry`, if the record that was found permits it.
    #[must_use]
    pub fn begin(found: &mut Option<Self>, now: Duration, key: &Key, entry: &BeginRequest) -> BeginOutcome {
        let last = found.as_ref().map(|record| record.fence);
        let (fence, attempts) = match found.as_ref().filter(|record| now < record.expires) {
            None => (Fence::next(last, now), 1),
            Some(record) => match record.may_begin(now, entry) {
                Ok(again) => again,
                Err(refused) => return refused,
            },
        };
        *found = Some(Self {
            fingerprint: entry.fingerprint,
            owner: entry.owner,
            fence,
            attempts,
            state: State::Started,
            lease_end: now + entry.lease,
            expires: now + entry.keep.max(entry.lease),
        });
        BeginOutcome::Run(Claim { key: key.clone(), owner: entry.owner, fence, attempt: attempts })
    }

    /// Returns the fence and the number of the attempt, if the owner of `entry` may begin.
    fn may_begin(&self, now: Duration, entry: &BeginRequest) -> Result<(Fence, u32), BeginOutcome> {
        if self.fingerprint != entry.fingerprint {
            return Err(BeginOutcome::Mismatch);
        }
        match &self.state {
            State::Completed(answer) => Err(BeginOutcome::Completed(answer.clone())),
            State::Failed(answer) => Err(BeginOutcome::Failed(answer.clone())),
            State::Started if self.owner == entry.owner => Ok((self.fence, self.attempts)),
            State::Started if now < self.lease_end => {
                Err(BeginOutcome::InFlight { left: self.lease_end - now })
            }
            State::Started | State::Open => {
                Ok((Fence::next(Some(self.fence), now), self.attempts.saturating_add(1)))
            }
        }
    }

    /// Extends the lease of a claim after a heartbeat of its owner.
    #[must_use]
    pub fn extend(found: &mut Option<Self>, now: Duration, claim: &Claim, lease: Duration) -> ExtendOutcome {
        let Some(record) = found.as_mut().filter(|record| record.is_claimed_by(now, claim)) else {
            return ExtendOutcome::Fenced;
        };
        if record.state != State::Started {
            return ExtendOutcome::AlreadyFinished;
        }
        record.lease_end = now + lease;
        record.expires = record.expires.max(record.lease_end);
        ExtendOutcome::Extended
    }

    /// Stores the outcome of a claim.
    #[must_use]
    pub fn finish(
        found: &mut Option<Self>,
        now: Duration,
        claim: &Claim,
        ending: &Outcome,
        keep: Duration,
    ) -> FinishOutcome {
        let Some(record) = found.as_mut().filter(|record| record.is_claimed_by(now, claim)) else {
            return FinishOutcome::Fenced;
        };
        match (&record.state, ending) {
            (State::Started, _) => {}
            (State::Completed(_), Outcome::Completed(_))
            | (State::Failed(_), Outcome::Failed(_))
            | (State::Open, Outcome::Retryable) => return FinishOutcome::Written,
            _ => return FinishOutcome::AlreadyFinished,
        }
        record.state = match ending {
            Outcome::Completed(answer) => State::Completed(answer.clone()),
            Outcome::Failed(answer) => State::Failed(answer.clone()),
            Outcome::Retryable => State::Open,
        };
        record.expires = now + keep;
        FinishOutcome::Written
    }

    fn is_claimed_by(&self, now: Duration, claim: &Claim) -> bool {
        now < self.expires && self.owner == claim.owner && self.fence == claim.fence
    }
}
