//! Property tests of the rules of records.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const LEASE: Duration = Duration::from_secs(30);
const KEEP: Duration = Duration::from_secs(600);

fn key() -> Key {
    Key::new("payments", "order-1").unwrap()
}

fn answer(number: u8) -> Answer {
    Answer::new(200, "text/plain", vec![number])
}

fn entry(owner: u8, request: u8) -> BeginRequest {
    let fingerprint = Fingerprint::of([&[request][..]]);
    BeginRequest { owner: Owner::from(u128::from(owner)), fingerprint, lease: LEASE, keep: KEEP }
}

/// Record with a clock.
struct World {
    record: Option<Record>,
    now: Duration,
}

impl World {
    fn new() -> Self {
        Self { record: None, now: Duration::from_secs(1_800_000_000) }
    }

    fn begin(&mut self, owner: u8) -> BeginOutcome {
        Record::begin(&mut self.record, self.now, &key(), &entry(owner, 1))
    }

    #[track_caller]
    fn claim(&mut self, owner: u8) -> Claim {
        let BeginOutcome::Run(claim) = self.begin(owner) else { panic!("{owner} may not begin") };
        claim
    }

    fn finish(&mut self, claim: &Claim, ending: &Outcome) -> FinishOutcome {
        Record::finish(&mut self.record, self.now, claim, ending, KEEP)
    }

    fn extend(&mut self, claim: &Claim) -> ExtendOutcome {
        Record::extend(&mut self.record, self.now, claim, LEASE)
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }
}

#[test]
fn a_repeat_gets_the_answer_and_another_request_is_refused() {
    let mut world = World::new();
    let first = world.claim(1);
    assert_eq!(world.begin(2), BeginOutcome::InFlight { left: LEASE });
    assert_eq!(world.finish(&first, &Outcome::Completed(answer(7))), FinishOutcome::Written);
    assert_eq!(world.begin(2), BeginOutcome::Completed(answer(7)));
    let other = Record::begin(&mut world.record, world.now, &key(), &entry(2, 9));
    assert_eq!(other, BeginOutcome::Mismatch);
}

#[test]
fn who_stays_away_is_taken_over_and_comes_too_late() {
    let mut world = World::new();
    let late = world.claim(1);
    world.pass(LEASE);
    let next = world.claim(2);
    assert!(next.fence > late.fence && next.attempt == 2);
    assert_eq!(world.extend(&late), ExtendOutcome::Fenced);
    assert_eq!(world.finish(&late, &Outcome::Completed(answer(1))), FinishOutcome::Fenced);
    assert_eq!(world.finish(&next, &Outcome::Completed(answer(2))), FinishOutcome::Written);
    assert_eq!(world.finish(&late, &Outcome::Retryable), FinishOutcome::Fenced);
    assert_eq!(world.begin(3), BeginOutcome::Completed(answer(2)));
}

#[test]
fn signs_of_life_keep_others_away() {
    let mut world = World::new();
    let claim = world.claim(1);
    for _ in 0..40 {
        world.pass(LEASE - Duration::from_secs(1));
        assert!(matches!(world.begin(2), BeginOutcome::InFlight { .. }));
        assert_eq!(world.extend(&claim), ExtendOutcome::Extended);
    }
}

#[test]
fn what_may_succeed_the_next_time_is_not_remembered_as_failed() {
    let mut world = World::new();
    let first = world.claim(1);
    assert_eq!(world.finish(&first, &Outcome::Retryable), FinishOutcome::Written);
    let second = world.claim(2);
    assert_eq!(second.attempt, 2);
    assert_eq!(world.finish(&second, &Outcome::Failed(answer(4))), FinishOutcome::Written);
    assert_eq!(world.begin(3), BeginOutcome::Failed(answer(4)));
}

#[test]
fn a_question_whose_answer_was_lost_is_asked_again() {
    let mut world = World::new();
    let claim = world.claim(1);
    assert_eq!(world.claim(1), claim);
    assert_eq!(world.finish(&claim, &Outcome::Completed(answer(1))), FinishOutcome::Written);
    assert_eq!(world.finish(&claim, &Outcome::Completed(answer(2))), FinishOutcome::Written);
    assert_eq!(world.finish(&claim, &Outcome::Retryable), FinishOutcome::AlreadyFinished);
    assert_eq!(world.extend(&claim), ExtendOutcome::AlreadyFinished);
    assert_eq!(world.begin(2), BeginOutcome::Completed(answer(1)));
}

#[test]
fn a_record_is_forgotten_in_the_end_and_its_fence_still_grows() {
    let mut world = World::new();
    let first = world.claim(1);
    world.finish(&first, &Outcome::Completed(answer(1)));
    world.pass(KEEP);
    assert_eq!(world.finish(&first, &Outcome::Completed(answer(1))), FinishOutcome::Fenced);
    let second = world.claim(2);
    assert!(second.fence > first.fence && second.attempt == 1);
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Begin { owner: u8, request: u8 },
    Extend { claim: usize },
    Finish { claim: usize, ending: u8 },
    Pass { seconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4u8, 0..2u8).prop_map(|(owner, request)| Step::Begin { owner, request }),
        2 => (0..9usize).prop_map(|claim| Step::Extend { claim }),
        3 => (0..9usize, 0..3u8).prop_map(|(claim, ending)| Step::Finish { claim, ending }),
        2 => (0..40u64).prop_map(|seconds| Step::Pass { seconds }),
        1 => (500..700u64).prop_map(|seconds| Step::Pass { seconds }),
    ]
}

/// Observer that does not know the rules and records all answers with their times.
#[derive(Default)]
struct Onlooker {
    claims: Vec<Claim>,
    /// Last claim, the time until which no other owner may begin, and the time until which the record is stored.
    last: Option<(Claim, Duration, Duration)>,
    /// Answer that repeats must get, and the time until which they must get it.
    answer: Option<(BeginOutcome, Duration)>,
    /// True once the last claim has ended in any way.
    is_over: bool,
    fences: BTreeSet<i64>,
}

impl Onlooker {
    fn begun(&mut self, now: Duration, entry: &BeginRequest, begun: &BeginOutcome) {
        let answer = self.answer.clone().filter(|(_, until)| now < *until).map(|(answer, _)| answer);
        match begun {
            BeginOutcome::Run(claim) => {
                assert_eq!(answer, None, "begun although there is an answer");
                let again = self.claims.iter().any(|known| known == claim);
                if let Some((last, busy, _)) = &self.last {
                    assert!(last == claim || now >= *busy, "two at a time");
                }
                assert!(again || self.fences.last().is_none_or(|last| *last < claim.fence.get()));
                self.fences.insert(claim.fence.get());
                self.claims.push(claim.clone());
                (self.answer, self.is_over) = (None, false);
                self.last = Some((claim.clone(), now + entry.lease, now + entry.keep));
            }
            BeginOutcome::Completed(_) | BeginOutcome::Failed(_) => assert_eq!(answer.as_ref(), Some(begun)),
            BeginOutcome::InFlight { left } => {
                let (last, busy, _) = self.last.as_ref().expect("nobody is at it");
                assert!(last.owner != entry.owner && now + *left == *busy && answer.is_none());
            }
            BeginOutcome::Mismatch => {
                let (_, _, remembered) = self.last.as_ref().expect("nothing to differ from");
                assert!(now < *remembered);
            }
        }
    }

    fn ended(&mut self, now: Duration, claim: &Claim, ending: &Outcome, ended: FinishOutcome) {
        let current = self.last.as_ref().filter(|(last, _, until)| last == claim && now < *until);
        assert_eq!(ended == FinishOutcome::Fenced, current.is_none());
        if ended != FinishOutcome::Written || std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let until = now + KEEP;
        self.answer = match ending {
            Outcome::Completed(answer) => Some((BeginOutcome::Completed(answer.clone()), until)),
            Outcome::Failed(answer) => Some((BeginOutcome::Failed(answer.clone()), until)),
            Outcome::Retryable => None,
        };
        if let Some((_, busy, remembered)) = &mut self.last {
            (*busy, *remembered) = (now, (*remembered).max(until));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn an_onlooker_sees_each_key_done_once(steps in vec(step(), 1..60)) {
        let mut world = World::new();
        let mut onlooker = Onlooker::default();
        for (number, step) in (0u8..).zip(steps) {
            match step {
                Step::Begin { owner, request } => {
                    let entry = entry(owner, request);
                    let begun = Record::begin(&mut world.record, world.now, &key(), &entry);
                    onlooker.begun(world.now, &entry, &begun);
                }
                Step::Extend { claim } => {
                    let Some(claim) = pick(&onlooker.claims, claim) else { continue };
                    let extended = world.extend(&claim);
                    let known = onlooker.last.as_ref();
                    let current = known.is_some_and(|(last, _, until)| *last == claim && world.now < *until);
                    prop_assert_eq!(extended == ExtendOutcome::Fenced, !current);
                    if extended != ExtendOutcome::Fenced {
                        prop_assert_eq!(extended == ExtendOutcome::AlreadyFinished, onlooker.is_over);
                    }
                    if extended == ExtendOutcome::Extended {
                        let (last, busy, until) = onlooker.last.as_mut().expect("nobody is at it");
                        prop_assert!(*last == claim && onlooker.answer.is_none());
                        (*busy, *until) = (world.now + LEASE, (*until).max(world.now + LEASE));
                    }
                }
                Step::Finish { claim, ending } => {
                    let Some(claim) = pick(&onlooker.claims, claim) else { continue };
                    let ending = match ending {
                        0 => Outcome::Completed(answer(number)),
                        1 => Outcome::Failed(answer(number)),
                        _ => Outcome::Retryable,
                    };
                    let ended = world.finish(&claim, &ending);
                    onlooker.ended(world.now, &claim, &ending, ended);
                }
                Step::Pass { seconds } => world.pass(Duration::from_secs(seconds)),
            }
        }
    }
}

/// Returns one of the claims by its index from the end, so that the last ones, which still have an effect, come first.
fn pick(claims: &[Claim], index: usize) -> Option<Claim> {
    claims.iter().rev().nth(index % claims.len().max(1)).cloned()
}
