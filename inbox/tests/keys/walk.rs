//! Each store against the rule, [`Record`]: the same questions at random get the same answers.

use std::time::Duration;

use fastrand::Rng;
use outboxd_inbox::idempotency::{Answer, BeginOutcome, Claim, Outcome, Record};

use crate::support::subject::{Subject, entry, key};

const WALKS: u64 = 24;
const STEPS: u32 = 60;

/// A store without a clock gives leases for longer, since clocks differ.
const DIFFER_MAX: Duration = Duration::from_secs(2);

/// The rule beside a store. The order in which claims were obtained distinguishes them.
struct Pair<'a, S> {
    store: &'a S,
    name: String,
    record: Option<Record>,
    now: Duration,
    claims: Vec<(Claim, Claim)>,
}

pub(crate) async fn follows_the_rule<S: Subject>(store: &S) {
    for seed in 0..WALKS {
        let mut random = Rng::with_seed(seed);
        let now = Duration::from_secs(1_800_000_000);
        let mut pair = Pair { store, name: format!("walk-{seed}"), record: None, now, claims: Vec::new() };
        for step in 0..STEPS {
            pair.step(&mut random, &format!("seed {seed}, step {step}")).await;
        }
    }
}

impl<S: Subject> Pair<'_, S> {
    async fn step(&mut self, random: &mut Rng, at: &str) {
        match random.u8(..20) {
            0..8 => self.begin(random.u128(1..4), u8::from(random.u8(..8) == 0), at).await,
            8..11 => self.extend(random, at).await,
            11..16 => self.finish(random, at).await,
            16..19 => {
                self.now += Duration::from_hours(1);
                self.store.end_lease(&key(&self.name)).await;
            }
            _ => {
                // Some time has passed by then.
                (self.record, self.now) = (None, self.now + Duration::from_secs(1));
                self.store.expire(&key(&self.name)).await;
            }
        }
    }

    async fn begin(&mut self, owner: u128, request: u8, at: &str) {
        let (key, entry) = (key(&self.name), entry(owner, request));
        let ruled = Record::begin(&mut self.record, self.now, &key, &entry);
        let stored = self.store.begin(&key, &entry).await.unwrap();
        match (ruled, stored) {
            (BeginOutcome::Run(ruled), BeginOutcome::Run(stored)) => {
                assert_eq!((ruled.attempt, ruled.owner), (stored.attempt, stored.owner), "{at}");
                if let Some((before, stored_before)) = self.claims.last() {
                    let grows = ruled.fence.cmp(&before.fence);
                    assert_eq!(stored.fence.cmp(&stored_before.fence), grows, "{at}");
                }
                self.claims.push((ruled, stored));
            }
            (BeginOutcome::InFlight { .. }, BeginOutcome::InFlight { left }) => {
                assert!(left <= entry.lease + DIFFER_MAX, "{at}");
            }
            (ruled, stored) => assert_eq!(ruled, stored, "{at}"),
        }
    }

    async fn extend(&mut self, random: &mut Rng, at: &str) {
        let Some((ruled, stored)) = self.pick(random) else { return };
        let lease = Duration::from_hours(1);
        let expected = Record::extend(&mut self.record, self.now, &ruled, lease);
        assert_eq!(self.store.extend(&stored, lease).await.unwrap(), expected, "{at}");
    }

    async fn finish(&mut self, random: &mut Rng, at: &str) {
        let Some((ruled, stored)) = self.pick(random) else { return };
        let answer = Answer::new(200, "text/plain", vec![random.u8(..), 0, 255]);
        let ending = match random.u8(..3) {
            0 => Outcome::Completed(answer),
            1 => Outcome::Failed(answer),
            _ => Outcome::Retryable,
        };
        let keep = Duration::from_hours(1000);
        let expected = Record::finish(&mut self.record, self.now, &ruled, &ending, keep);
        assert_eq!(self.store.finish(&stored, &ending, keep).await.unwrap(), expected, "{at}");
    }

    /// Picks one of the last three claims.
    fn pick(&self, random: &mut Rng) -> Option<(Claim, Claim)> {
        self.claims.iter().rev().nth(random.usize(..3)).cloned()
    }
}
