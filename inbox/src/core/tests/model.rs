//! Model of a partition, driven by random steps.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// Step of the model: something that happens to a job or beside it.
#[derive(Debug, Clone, Copy)]
enum Step {
    Receive,
    /// A handler has returned, and its transaction has not ended.
    Committing,
    Done,
    Failed,
    Poison,
    Unavailable,
    Fenced,
    Surrendered,
    Taken,
    /// Events are written to the table and read from it.
    Table,
    /// PostgreSQL does not answer reads and writes of the table.
    NoTable,
    Pass,
    /// Offsets are sent to Kafka, unless a commit is in flight.
    Commit,
    /// Kafka has answered.
    Accepted,
    Refused,
    /// The partition is revoked and assigned again, and is read from the committed offset.
    Rebalance,
    /// An operator takes the partition for a moment, and removes the first parked event, or makes all of them due.
    Operate,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::Receive),
        4 => Just(Step::Committing),
        8 => Just(Step::Done),
        3 => Just(Step::Failed),
        1 => Just(Step::Poison),
        1 => Just(Step::Unavailable),
        1 => Just(Step::Fenced),
        3 => Just(Step::Surrendered),
        3 => Just(Step::Taken),
        3 => Just(Step::Table),
        1 => Just(Step::NoTable),
        2 => Just(Step::Pass),
        2 => Just(Step::Commit),
        2 => Just(Step::Accepted),
        1 => Just(Step::Refused),
        1 => Just(Step::Rebalance),
        1 => Just(Step::Operate),
    ]
}

/// Model of one partition: its log, the database with the events done, and all work in flight.
struct Model {
    world: World,
    log: Vec<u8>,
    next: i64,
    /// Offset that Kafka has, and the commits in flight.
    committed: i64,
    commits: Option<Vec<Commit>>,
    /// Offsets of the events that have ended. A repeated event is done at once, because its id is stored.
    ended: HashMap<i64, ()>,
    by_key: HashMap<u8, Vec<i64>>,
    /// Running jobs, each with a flag that its handler has returned.
    running: Vec<(Job, bool)>,
    dying: Vec<Surrender>,
    /// Table of parked events: for each offset the time from which the event may be handled, and the number of its failures.
    table: BTreeMap<i64, (Instant, u32)>,
    parks: Vec<Park>,
    loads: Vec<Load>,
    limits: (usize, usize),
}

impl Model {
    fn absorb(&mut self) {
        for job in self.world.jobs() {
            assert!(job.events.len() <= self.limits.1 && !job.events.is_empty());
            self.running.push((job, false));
        }
        let at_work = self.running.iter().filter(|(_, is_committing)| !is_committing).count();
        assert!(at_work <= self.limits.0, "more handlers than workers");
        assert!(self.running.len() <= self.limits.0 + 1, "more transactions than connections");
        self.dying.extend(self.world.surrenders());
        self.parks.extend(self.world.parks());
        self.loads.extend(self.world.loads());
        if let Some(end) = self.world.committed() {
            let is_safe = |offset| self.ended.contains_key(&offset) || self.table.contains_key(&offset);
            assert!((0..end).all(is_safe), "committed past what has neither ended nor is parked");
        }
    }

    fn answer(&mut self, is_accepted: bool) {
        let Some(commits) = self.commits.take().filter(|_| is_accepted) else { return };
        for commit in &commits {
            self.committed = commit.end;
        }
        self.world.core.committed(self.world.now, &commits);
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
        let (job, _) = self.running.swap_remove(pick % self.running.len());
        let mut outcome = outcome;
        if outcome == Outcome::Done {
            if job.events.iter().all(|event| self.ended.contains_key(&event.offset)) {
                outcome = Outcome::Repeated;
            }
            job.events.iter().for_each(|event| self.mark(event.offset));
            if job.is_parked {
                self.table.remove(&job.events[0].offset);
            }
        }
        self.world.end(&job, outcome);
    }

    fn commit(&mut self, pick: usize) {
        let count = self.running.len().max(1);
        if let Some((job, is_committing)) = self.running.get_mut(pick % count) {
            *is_committing = true;
            self.world.turn(Input::Committing { id: job.id });
        }
    }

    /// Answers the pending reads and writes of the table.
    fn table(&mut self, is_there: bool) {
        for park in std::mem::take(&mut self.parks) {
            if is_there {
                for event in &park.events {
                    self.table.entry(event.offset).or_insert((self.world.now, 0));
                }
                if let Some(failed) = park.failed {
                    let first = park.events[0].offset;
                    self.table.insert(first, (self.world.now + failed.wait, failed.attempts));
                }
            }
            self.world.turn(Input::Parked { id: park.id, is_parked: is_there });
        }
        for load in std::mem::take(&mut self.loads) {
            let LaneName::Key(key) = &load.lane else { unreachable!() };
            let key_of = |offset: &i64| self.log[usize::try_from(*offset).unwrap()];
            let first = self.table.iter().find(|(offset, _)| key_of(offset) == key[0]);
            let loaded = match first {
                _ if !is_there => Loaded::Unavailable,
                None => Loaded::Nothing,
                Some((_, (until, _))) if *until > self.world.now => Loaded::Waits(*until - self.world.now),
                Some((offset, (_, attempts))) => {
                    Loaded::Due { event: event(0, *offset, key[0]), attempts: *attempts, begun: 0 }
                }
            };
            self.world.turn(Input::Loaded { id: load.id, loaded });
        }
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
            Step::Committing => self.commit(pick),
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
                    self.table.remove(&dead.event.offset);
                    self.world.turn(Input::Surrendered { id: dead.id, has_number: false });
                }
            }
            Step::Taken => {
                if self.world.actions.iter().any(|action| matches!(action, Action::Take(_))) {
                    let parked = |(offset, (until, _)): (&i64, &(Instant, u32))| ParkedEvent {
                        key: Some(vec![self.log[usize::try_from(*offset).unwrap()]]),
                        offset: *offset,
                        wait: Some(until.saturating_duration_since(self.world.now)),
                    };
                    let parked = self.table.iter().map(parked).collect();
                    self.world.take_with(BTreeMap::new(), parked);
                }
            }
            Step::Table => self.table(true),
            Step::NoTable => self.table(false),
            Step::Pass => self.world.pass(Duration::from_secs(6)),
            Step::Commit if self.commits.is_none() => {
                self.commits = Some(self.world.core.commits(self.world.now));
            }
            Step::Commit => {}
            Step::Accepted => self.answer(true),
            Step::Refused => self.answer(false),
            Step::Rebalance => self.rebalance(),
            Step::Operate => self.operate(pick),
        }
        self.absorb();
    }

    /// Lets an operator change the table. As with the lock in PostgreSQL, jobs in progress end first; they are refused.
    fn operate(&mut self, pick: usize) {
        let Some(tenure) = self.world.core.waiting(false).next().cloned() else { return };
        while !self.running.is_empty() {
            self.end(0, Outcome::Fenced);
        }
        while let Some(dead) = self.dying.pop() {
            self.world.turn(Input::NotSurrendered { id: dead.id });
        }
        self.table(false);
        let now = self.world.now;
        if pick.is_multiple_of(2) {
            self.table.values_mut().for_each(|(until, _)| *until = now);
        } else if let Some((offset, _)) = self.table.pop_first() {
            self.mark(offset);
        }
        self.world.turn(Input::Lost(tenure));
    }

    /// Revokes the partition and assigns it again. As with the lock in PostgreSQL, jobs in progress and commits in flight end
    /// first.
    fn rebalance(&mut self) {
        self.world.turn(Input::Revoked(partition(0)));
        self.answer(true);
        while !self.running.is_empty() {
            self.end(0, Outcome::Fenced);
        }
        while let Some(dead) = self.dying.pop() {
            self.world.turn(Input::Surrendered { id: dead.id, has_number: false });
        }
        self.table(false);
        self.world.actions.clear();
        self.next = self.committed;
        self.world.turn(Input::Assigned(partition(0)));
    }
}

proptest! {
    /// Handlers end and partitions move in any way: the events of a key end in their order, no offset is committed before its event
    /// has ended, and finally all events have ended.
    #[test]
    fn keys_keep_their_order_and_nothing_is_lost(
        log in prop::collection::vec(0..4_u8, 1..30),
        steps in prop::collection::vec((step(), any::<usize>()), 0..200),
        workers in 1..4_usize,
        batch in 1..5_usize,
        parked_max in 1..9_usize,
        delays in 0..3_usize,
    ) {
        let of = |n: usize| NonZeroUsize::new(n).unwrap();
        let retry = options().retry.park(vec![Duration::from_secs(30); delays]);
        let options = Options { workers: of(workers), batch: of(batch), retry, parked_max, ..options() };
        let mut model = Model {
            world: World::new(options, 1),
            log,
            next: 0,
            committed: 0,
            commits: None,
            ended: HashMap::new(),
            by_key: HashMap::new(),
            running: Vec::new(),
            dying: Vec::new(),
            table: BTreeMap::new(),
            parks: Vec::new(),
            loads: Vec::new(),
            limits: (workers, batch),
        };
        for (step, pick) in steps {
            model.step(step, pick);
        }
        for _ in 0..model.log.len() * 4 + 10 {
            let steps = [
                Step::Receive, Step::Taken, Step::Done, Step::Surrendered, Step::Table, Step::Pass, Step::Table,
            ];
            for step in steps {
                model.step(step, 0);
            }
        }
        // The first answer may be for an earlier commit.
        for step in [Step::Accepted, Step::Commit, Step::Accepted] {
            model.step(step, 0);
        }
        prop_assert_eq!(model.ended.len(), model.log.len());
        prop_assert_eq!(model.committed, i64::try_from(model.log.len()).unwrap());
        prop_assert!(model.world.core.is_idle());
        for offsets in model.by_key.values() {
            prop_assert!(offsets.is_sorted(), "{:?}", offsets);
        }
    }
}
