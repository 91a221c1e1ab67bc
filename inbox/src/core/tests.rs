//! Tests of the decisions of a consumer.

mod commits;
mod crashes;
mod delays;
mod guarded;
mod model;
mod parking;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// Core that owns the partitions from 0 up to, but not including, `partitions`.
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

    /// Answers the first pending request to take a partition.
    fn take(&mut self, begun: BTreeMap<i64, u32>) {
        self.take_with(begun, Vec::new());
    }

    fn take_with(&mut self, begun: BTreeMap<i64, u32>, parked: Vec<ParkedEvent>) {
        let at = self.actions.iter().position(|action| matches!(action, Action::Take(_))).unwrap();
        let Action::Take(tenure) = self.actions.remove(at) else { unreachable!() };
        self.turn(Input::Taken { tenure, suspects: Suspects::new(0..0, begun), parked, is_rewound: false });
    }

    fn receive(&mut self, partition: i32, offsets: &[(i64, u8)]) {
        for (offset, key) in offsets {
            self.turn(Input::Received(event(partition, *offset, *key)));
        }
    }

    /// Removes and returns the actions that match.
    fn some<T>(&mut self, is_it: impl Fn(Action) -> Option<T>) -> Vec<T> {
        let (mut found, mut others) = (Vec::new(), Vec::new());
        for action in std::mem::take(&mut self.actions) {
            match is_it(action.clone()) {
                Some(it) => found.push(it),
                None => others.push(action),
            }
        }
        self.actions = others;
        found
    }

    fn jobs(&mut self) -> Vec<Job> {
        self.some(|action| if let Action::Run(job) = action { Some(job) } else { None })
    }

    fn surrenders(&mut self) -> Vec<Surrender> {
        self.some(|action| if let Action::Surrender(it) = action { Some(it) } else { None })
    }

    fn parks(&mut self) -> Vec<Park> {
        self.some(|action| if let Action::Park(it) = action { Some(it) } else { None })
    }

    fn loads(&mut self) -> Vec<Load> {
        self.some(|action| if let Action::Load(it) = action { Some(it) } else { None })
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
fn a_key_waits_for_its_first_event_and_the_others_continue() {
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
    world.turn(Input::Surrendered { id: dead[0].id, has_number: false });
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
    // It waits before each further attempt, since the process may have ended for another reason.
    let mut begun = 3;
    for wait in [60, 300, 1800] {
        let park = world.parks().remove(0);
        let failed = park.failed.clone().unwrap();
        assert_eq!((failed.begun, failed.wait), (begun, Duration::from_secs(wait)));
        assert!(world.surrenders().is_empty());
        begun += 1;
        world = World::new(options(), 0);
        world.turn(Input::Assigned(partition(0)));
        let parked = ParkedEvent { key: Some(vec![b'c']), offset: 2, wait: Some(Duration::ZERO) };
        world.take_with([(2, begun)].into(), vec![parked]);
        world.turn(Input::Wake);
        let load = world.loads().remove(0);
        let loaded = Loaded::Due { event: event(0, 2, b'c'), attempts: 0, begun: begun - 1 };
        world.turn(Input::Loaded { id: load.id, loaded });
    }
    let dead = world.surrenders();
    assert_eq!((dead[0].event.offset, dead[0].reason, dead[0].attempts), (2, Reason::Crashed, 6));
}

#[test]
fn what_has_waited_after_it_ended_the_process_is_begun_alone() {
    let mut world = World::new(options(), 1);
    world.turn(Input::Revoked(partition(0)));
    world.turn(Input::Assigned(partition(0)));
    let parked = ParkedEvent { key: Some(vec![b'c']), offset: 2, wait: Some(Duration::ZERO) };
    world.take_with([(2, 3)].into(), vec![parked]);
    world.receive(0, &[(5, b'd')]);
    let other = world.jobs().remove(0);
    world.turn(Input::Wake);
    let load = world.loads().remove(0);
    let loaded = Loaded::Due { event: event(0, 2, b'c'), attempts: 0, begun: 3 };
    world.turn(Input::Loaded { id: load.id, loaded });
    assert_eq!(world.jobs().len(), 0, "not beside another one");
    world.end(&other, Outcome::Done);
    let alone = world.jobs().remove(0);
    assert_eq!((alone.events[0].offset, alone.begun, alone.is_parked), (2, 3, true));
}

#[test]
fn the_next_handler_begins_while_a_transaction_is_committed_but_not_with_its_key() {
    let mut world = World::new(Options { workers: NonZeroUsize::MIN, ..options() }, 1);
    world.receive(0, &[(0, b'a'), (1, b'a'), (2, b'b'), (3, b'c')]);
    let first = world.jobs();
    assert_eq!(offsets(&first), [vec![0]]);
    world.turn(Input::Committing { id: first[0].id });
    let second = world.jobs();
    assert_eq!((offsets(&second), world.committed()), (vec![vec![2]], Some(0)));
    world.turn(Input::Committing { id: second[0].id });
    assert_eq!(world.jobs().len(), 0, "there is one connection more, and it is in use");
    world.end(&first[0], Outcome::Done);
    assert_eq!((offsets(&world.jobs()), world.committed()), (vec![vec![3]], Some(1)));
}

#[test]
fn what_may_end_the_process_waits_for_what_is_being_committed() {
    let mut world = World::new(options(), 0);
    world.turn(Input::Assigned(partition(0)));
    world.take([(1, 2)].into());
    world.receive(0, &[(0, b'a'), (1, b'b')]);
    let first = world.jobs().remove(0);
    world.turn(Input::Committing { id: first.id });
    assert_eq!(world.jobs().len(), 0);
    world.end(&first, Outcome::Done);
    assert_eq!(offsets(&world.jobs()), [vec![1]]);
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
    let mut tried = 0;
    for _ in 0..50 {
        world.pass(Duration::from_secs(1));
        let jobs = world.jobs();
        tried += jobs.len();
        jobs.iter().for_each(|job| world.end(job, failed()));
    }
    assert!(tried > 10 && tried < 100, "{tried}");
    assert_eq!(world.surrenders().len(), 0);
    while let Some(job) = world.jobs().pop() {
        world.end(&job, failed());
    }
    world.pass(Duration::from_secs(6));
    let tried = world.jobs();
    world.end(&tried[0], Outcome::Done);
    assert_eq!(world.jobs().len(), 1);
}

#[test]
fn nothing_is_read_while_too_much_waits_and_what_stays_full_is_paused() {
    let workers = NonZeroUsize::MIN;
    let mut world = World::new(Options { queued_max: 4, workers, ..options() }, 1);
    let end_one = |world: &mut World| {
        let job = world.jobs().remove(0);
        world.end(&job, Outcome::Done);
    };
    world.receive(0, &[(0, b'a'), (1, b'a'), (2, b'a'), (3, b'a')]);
    for has_room in [false, false, false, true] {
        assert_eq!(world.core.has_room(), has_room);
        end_one(&mut world);
    }
    let changes = |world: &mut World| {
        world.some(|action| match action {
            Action::Pause(_) => Some("pause"),
            Action::Resume(_) => Some("resume"),
            _ => None,
        })
    };
    assert!(changes(&mut world).is_empty());

    world.receive(0, &[(4, b'a'), (5, b'a'), (6, b'a'), (7, b'a')]);
    let until = world.core.next_wake().unwrap();
    assert!(!world.core.has_room() && changes(&mut world).is_empty());
    world.pass(until - world.now);
    assert!(world.core.has_room(), "for the others");
    assert_eq!(changes(&mut world), ["pause"]);
    (0..3).for_each(|_| end_one(&mut world));
    assert_eq!(changes(&mut world), ["resume"]);
}
