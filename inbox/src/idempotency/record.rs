use std::time::Duration;

use super::answer::Answer;
use super::claim::{Begun, Claim, Ended, Ending, Entry, Extended, Fence, Owner};
use super::fingerprint::Fingerprint;
use super::key::Key;

/// What is known of a key. This is the rule; each store has it in its own language, and its tests compare the two.
///
/// Times are since 1970, by the store's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub(super) fingerprint: Fingerprint,
    pub(super) owner: Owner,
    pub(super) fence: Fence,
    pub(super) attempts: u32,
    pub(super) state: State,
    /// Of the last claim.
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
    /// Somebody wants to begin.
    #[must_use]
    pub fn begin(found: &mut Option<Self>, now: Duration, key: &Key, entry: &Entry) -> Begun {
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
        Begun::Run(Claim { key: key.clone(), owner: entry.owner, fence, attempt: attempts })
    }

    /// With which fence, and the how manieth attempt it is.
    fn may_begin(&self, now: Duration, entry: &Entry) -> Result<(Fence, u32), Begun> {
        if self.fingerprint != entry.fingerprint {
            return Err(Begun::Mismatch);
        }
        match &self.state {
            State::Completed(answer) => Err(Begun::Completed(answer.clone())),
            State::Failed(answer) => Err(Begun::Failed(answer.clone())),
            State::Started if self.owner == entry.owner => Ok((self.fence, self.attempts)),
            State::Started if now < self.lease_end => Err(Begun::InFlight { left: self.lease_end - now }),
            State::Started | State::Open => {
                Ok((Fence::next(Some(self.fence), now), self.attempts.saturating_add(1)))
            }
        }
    }

    /// The owner is alive.
    #[must_use]
    pub fn extend(found: &mut Option<Self>, now: Duration, claim: &Claim, lease: Duration) -> Extended {
        let Some(record) = found.as_mut().filter(|record| record.is_claimed_by(now, claim)) else {
            return Extended::Fenced;
        };
        if record.state != State::Started {
            return Extended::Ended;
        }
        record.lease_end = now + lease;
        record.expires = record.expires.max(record.lease_end);
        Extended::Yes
    }

    /// The owner has ended.
    #[must_use]
    pub fn finish(
        found: &mut Option<Self>,
        now: Duration,
        claim: &Claim,
        ending: &Ending,
        keep: Duration,
    ) -> Ended {
        let Some(record) = found.as_mut().filter(|record| record.is_claimed_by(now, claim)) else {
            return Ended::Fenced;
        };
        match (&record.state, ending) {
            (State::Started, _) => {}
            (State::Completed(_), Ending::Completed(_))
            | (State::Failed(_), Ending::Failed(_))
            | (State::Open, Ending::Open) => return Ended::Written,
            _ => return Ended::Otherwise,
        }
        record.state = match ending {
            Ending::Completed(answer) => State::Completed(answer.clone()),
            Ending::Failed(answer) => State::Failed(answer.clone()),
            Ending::Open => State::Open,
        };
        record.expires = now + keep;
        Ended::Written
    }

    fn is_claimed_by(&self, now: Duration, claim: &Claim) -> bool {
        now < self.expires && self.owner == claim.owner && self.fence == claim.fence
    }
}
