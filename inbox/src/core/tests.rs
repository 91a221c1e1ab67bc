use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::event::Headers;

fn event(partition: i32, offset: i64, key: u8) -> Arc<Event> {
    Arc::new(Event {
        topic: "t".into(),
        partition,
        offset,
        key: Some(vec![key]),
        value: None,
        headers: Headers::default(),
        timestamp_ms: None,
    })
}

fn partition(partition: i32) -> PartitionId {
    PartitionId { topic: "t".into(), partition }
}

fn options() -> Options {
    Options { retry: Retry::new([Duration::from_secs(1)]), ..Options::default() }
}

/// A core with the partitions 0 to `count`, taken.
struct World {
    core: Core,
    now: Instant,
    actions: Vec<Action>,
}

impl World {
    fn new(options: Options, partitions: i32) -> Self {
        let mut world = Self { core: Core::new(options, 7), now: Instant::now(), actions: Vec::new() };
        for number in 0..partitions {
            world.turn(Input::Assigned(partition(number)));
            world.take(BTreeMap::new());
        }
        world
    }

    fn turn(&mut self, input: Input) {
        let actions = self.core.turn(self.now, input);
        self.actions.extend(actions);
    }

    /// Answers the last wish to take a partition.
    fn take(&mut self, begun: BTreeMap<i64, u32>) {
        let at = self.actions.iter().position(|action| matches!(action, Action::Take(_))).unwrap();
        let Action::Take(tenure) = self.actions.remove(at) else { unreachable!() };
        self.turn(Input::Taken { tenure, begun });
    }

    fn receive(&mut self, partition: i32, offsets: &[(i64, u8)]) {
        for (offset, key) in offsets {
            self.turn(Input::Received(event(partition, *offset, *key)));
        }
    }

    fn jobs(&mut self) -> Vec<Job> {
        let (jobs, others) = std::mem::take(&mut self.actions)
            .into_iter()
            .partition(|action| matches!(action, Action::Run(_)));
        self.actions = others;
        jobs.into_iter()
            .filter_map(|action| if let Action::Run(job) = action { Some(job) } else { None })
            .collect()
    }

    fn surrenders(&mut self) -> Vec<Surrender> {
        let (found, others) = std::mem::take(&mut self.actions)
            .into_iter()
            .partition(|action| matches!(action, Action::Surrender(_)));
        self.actions = others;
        let surrender = |action| if let Action::Surrender(it) = action { Some(it) } else { None };
        found.into_iter().filter_map(surrender).collect()
    }

    fn end(&mut self, job: &Job, outcome: Outcome) {
        self.turn(Input::Ended { id: job.id, outcome });
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.turn(Input::Wake);
    }

    fn committed(&mut self) -> Option<i64> {
        self.core.ends().map(|(_, end)| end).next()
    }
}

fn failed() -> Outcome {
    Outcome::Failed { kind: FailureKind::Retry, error: "no".to_owned() }
}

fn offsets(jobs: &[Job]) -> Vec<Vec<i64>> {
    jobs.iter().map(|job| job.events.iter().map(|event| event.offset).collect()).collect()
}

#[test]
fn a_key_waits_for_its_first_event_and_the_others_go_on() {
    let mut world = World::new(options(), 1);
    world.receive(0, &[(0, b'a'), (1, b'a'), (2, b'b')]);
    let first = world.jobs();
    assert_eq!(offsets(&first), [vec![0], vec![2]]);
    world.end(&first[1], Outcome::Done);
    world.end(&first[0], failed());
    assert_eq!((world.jobs().len(), world.committed()), (0, Some(0)));
    world.pass(Duration::from_secs(2));
    let again = world.jobs();
    assert_eq!((offsets(&again), again[0].attempt), (vec![vec![0]], 2));
    world.end(&again[0], failed());
    let dead = world.surrenders();
    assert_eq!((dead[0].event.offset, dead[0].reason, dead[0].attempts), (0, Reason::Exhausted, 2));
    assert_eq!((world.jobs().len(), world.committed()), (0, Some(0)), "not before it is written");
    world.turn(Input::Surrendered { id: dead[0].id });
    assert_eq!((offsets(&world.jobs()), world.committed()), (vec![vec![1]], Some(1)));
}

#[test]
fn poison_is_given_up_at_once() {
    let mut world = World::new(options(), 1);
    world.receive(0, &[(0, b'a')]);
    let job = world.jobs().remove(0);
    world.end(&job, Outcome::Failed { kind: FailureKind::Poison, error: String::new() });
    assert_eq!(world.surrenders()[0].reason, Reason::Poison);
}

#[test]
fn a_batch_that_fails_is_handled_one_by_one() {
    let batch = NonZeroUsize::new(10).unwrap();
    let mut world = World::new(Options { batch, workers: NonZeroUsize::MIN, ..options() }, 1);
    world.receive(0, &[(0, b'x')]);
    let first = world.jobs().remove(0);
    world.receive(0, &[(1, b'a'), (2, b'a'), (3, b'b')]);
    world.end(&first, Outcome::Done);
    let together = world.jobs();
    assert_eq!(offsets(&together), [vec![1, 2, 3]]);
    world.end(&together[0], failed());
    // The lanes take turns.
    for offset in [1, 3, 2] {
        let single = world.jobs();
        assert_eq!((offsets(&single), single[0].attempt), (vec![vec![offset]], 1));
        world.end(&single[0], Outcome::Done);
    }
    assert_eq!(world.committed(), Some(4));
}

#[test]
fn what_may_end_the_process_is_begun_alone_and_given_up_after_the_last_time() {
    let mut world = World::new(options(), 0);
    world.turn(Input::Assigned(partition(0)));
    world.take([(1, 2), (2, 3)].into());
    world.receive(0, &[(0, b'a'), (1, b'b'), (2, b'c'), (3, b'd')]);
    let first = world.jobs();
    assert_eq!(offsets(&first), [vec![0]], "the next one waits to be alone");
    world.end(&first[0], Outcome::Done);
    let alone = world.jobs();
    assert_eq!((offsets(&alone), alone[0].begun), (vec![vec![1]], 2));
    world.end(&alone[0], Outcome::Done);
    assert_eq!(offsets(&world.jobs()), [vec![3]]);
    let dead = world.surrenders();
    assert_eq!((dead[0].event.offset, dead[0].reason, dead[0].attempts), (2, Reason::Crashed, 3));
}

#[test]
fn postgres_that_is_away_is_no_attempt() {
    let mut world = World::new(options(), 1);
    for offset in 0..5 {
        world.receive(0, &[(offset, b'a')]);
        let job = world.jobs().remove(0);
        world.end(&job, Outcome::Unavailable);
        assert_eq!(world.jobs().len(), 0);
        world.pass(Duration::from_secs(1));
        let again = world.jobs().remove(0);
        assert_eq!(again.attempt, 1);
        world.end(&again, Outcome::Done);
    }
}

#[test]
fn a_partition_that_another_consumer_took_is_taken_again_unless_it_is_revoked() {
    let mut world = World::new(options(), 1);
    world.receive(0, &[(0, b'a'), (1, b'b')]);
    let jobs = world.jobs();
    world.end(&jobs[0], Outcome::Fenced);
    world.end(&jobs[1], Outcome::Fenced);
    world.pass(Duration::from_secs(1));
    assert!(world.actions.is_empty(), "{:?}", world.actions);
    world.pass(Duration::from_secs(5));
    world.take(BTreeMap::new());
    let mut again = offsets(&world.jobs());
    again.sort();
    assert_eq!(again, [vec![0], vec![1]]);
    world.turn(Input::Revoked(partition(0)));
    world.pass(Duration::from_secs(9));
    assert!(world.actions.is_empty(), "{:?}", world.actions);
}

#[test]
fn when_everything_fails_nothing_is_given_up() {
    let mut world =
        World::new(Options { failures_in_a_row_max: 3, workers: NonZeroUsize::MIN, ..options() }, 1);
    world.receive(0, &[(0, b'a'), (1, b'b'), (2, b'c'), (3, b'd')]);
    for _ in 0..3 {
        let job = world.jobs().remove(0);
        world.end(&job, failed());
    }
    for _ in 0..5 {
        assert_eq!(world.jobs().len(), 0);
        world.pass(Duration::from_secs(6));
        let tried = world.jobs();
        assert_eq!(tried.len(), 1);
        world.end(&tried[0], failed());
    }
    assert_eq!(world.surrenders().len(), 0);
    world.pass(Duration::from_secs(6));
    let tried = world.jobs();
    world.end(&tried[0], Outcome::Done);
    assert_eq!(world.jobs().len(), 1);
}

#[test]
fn a_partition_with_too_much_waiting_is_paused() {
    let mut world = World::new(Options { queued_max: 4, workers: NonZeroUsize::MIN, ..options() }, 1);
    world.receive(0, &[(0, b'a'), (1, b'a'), (2, b'a'), (3, b'a')]);
    assert!(world.actions.iter().any(|action| matches!(action, Action::Pause(_))));
    for _ in 0..3 {
        assert!(!world.actions.iter().any(|action| matches!(action, Action::Resume(_))));
        let job = world.jobs().remove(0);
        world.end(&job, Outcome::Done);
    }
    assert!(world.actions.iter().any(|action| matches!(action, Action::Resume(_))));
}

/// What happens to a job, or beside it.
#[derive(Debug, Clone, Copy)]
enum Step {
    Receive,
    Done,
    Failed,
    Poison,
    Unavailable,
    Fenced,
    Surrendered,
    Taken,
    Pass,
    /// The partition is revoked and assigned again; it is read from where it was committed.
    Rebalance,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::Receive),
        8 => Just(Step::Done),
        3 => Just(Step::Failed),
        1 => Just(Step::Poison),
        1 => Just(Step::Unavailable),
        1 => Just(Step::Fenced),
        3 => Just(Step::Surrendered),
        3 => Just(Step::Taken),
        2 => Just(Step::Pass),
        1 => Just(Step::Rebalance),
    ]
}

/// One partition with a log, a database that knows what is done, and everything that is under way.
struct Model {
    world: World,
    log: Vec<u8>,
    next: i64,
    committed: i64,
    /// Which events have ended, by offset. An event that comes again is done at once, as the ids say.
    ended: HashMap<i64, ()>,
    by_key: HashMap<u8, Vec<i64>>,
    running: Vec<Job>,
    dying: Vec<Surrender>,
    limits: (usize, usize),
}

impl Model {
    fn absorb(&mut self) {
        for job in self.world.jobs() {
            assert!(job.events.len() <= self.limits.1 && !job.events.is_empty());
            self.running.push(job);
        }
        assert!(self.running.len() <= self.limits.0, "more handlers than workers");
        self.dying.extend(self.world.surrenders());
        if let Some(end) = self.world.committed() {
            assert!((0..end).all(|offset| self.ended.contains_key(&offset)), "committed past what has ended");
            self.committed = end;
        }
    }

    fn mark(&mut self, offset: i64) {
        if self.ended.insert(offset, ()).is_none() {
            self.by_key.entry(self.log[usize::try_from(offset).unwrap()]).or_default().push(offset);
        }
    }

    fn end(&mut self, pick: usize, outcome: Outcome) {
        if self.running.is_empty() {
            return;
        }
        let job = self.running.swap_remove(pick % self.running.len());
        if outcome == Outcome::Done {
            job.events.iter().for_each(|event| self.mark(event.offset));
        }
        self.world.end(&job, outcome);
    }

    fn step(&mut self, step: Step, pick: usize) {
        match step {
            Step::Receive => {
                if let Some(key) = self.log.get(usize::try_from(self.next).unwrap()) {
                    let key = *key;
                    self.world.receive(0, &[(self.next, key)]);
                    self.next += 1;
                }
            }
            Step::Done => self.end(pick, Outcome::Done),
            Step::Failed => self.end(pick, failed()),
            Step::Poison => {
                self.end(pick, Outcome::Failed { kind: FailureKind::Poison, error: String::new() });
            }
            Step::Unavailable => self.end(pick, Outcome::Unavailable),
            Step::Fenced => self.end(pick, Outcome::Fenced),
            Step::Surrendered => {
                if let Some(dead) = self.dying.pop() {
                    self.mark(dead.event.offset);
                    self.world.turn(Input::Surrendered { id: dead.id });
                }
            }
            Step::Taken => {
                if self.world.actions.iter().any(|action| matches!(action, Action::Take(_))) {
                    self.world.take(BTreeMap::new());
                }
            }
            Step::Pass => self.world.pass(Duration::from_secs(6)),
            Step::Rebalance => self.rebalance(),
        }
        self.absorb();
    }

    /// What is at work is waited for, as the lock in PostgreSQL does.
    fn rebalance(&mut self) {
        self.world.turn(Input::Revoked(partition(0)));
        while !self.running.is_empty() {
            self.end(0, Outcome::Fenced);
        }
        while let Some(dead) = self.dying.pop() {
            self.world.turn(Input::Surrendered { id: dead.id });
        }
        self.world.actions.clear();
        self.next = self.committed;
        self.world.turn(Input::Assigned(partition(0)));
    }
}

proptest! {
    /// However handlers end and partitions move: the events of a key end in their order, nothing is committed that has not
    /// ended, and in the end everything has.
    #[test]
    fn keys_keep_their_order_and_nothing_is_lost(
        log in prop::collection::vec(0..4_u8, 1..30),
        steps in prop::collection::vec((step(), any::<usize>()), 0..200),
        workers in 1..4_usize,
        batch in 1..5_usize,
    ) {
        let of = |n: usize| NonZeroUsize::new(n).unwrap();
        let options = Options { workers: of(workers), batch: of(batch), ..options() };
        let mut model = Model {
            world: World::new(options, 1),
            log,
            next: 0,
            committed: 0,
            ended: HashMap::new(),
            by_key: HashMap::new(),
            running: Vec::new(),
            dying: Vec::new(),
            limits: (workers, batch),
        };
        for (step, pick) in steps {
            model.step(step, pick);
        }
        for _ in 0..model.log.len() * 4 {
            for step in [Step::Receive, Step::Taken, Step::Done, Step::Surrendered, Step::Pass] {
                model.step(step, 0);
            }
        }
        prop_assert_eq!(model.ended.len(), model.log.len());
        prop_assert_eq!(model.committed, i64::try_from(model.log.len()).unwrap());
        prop_assert!(model.world.core.is_idle());
        for offsets in model.by_key.values() {
            prop_assert!(offsets.is_sorted(), "{:?}", offsets);
        }
    }
}
