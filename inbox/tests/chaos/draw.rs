//! From a seed to what a run has.

use fastrand::Rng;

use crate::habit::{Habit, *};

/// Fault or change in the middle of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    ConsumerKilled,
    ConsumerFrozen,
    ConsumerJoins,
    ConsumerLeaves,
    PostgresCut,
    PostgresHeld,
    PostgresKilled,
    BackendsTerminated,
    KafkaCut,
    KafkaHeld,
    KafkaKilled,
    /// Every handler fails for a while.
    Outage,
    /// The table of the effects is locked for a while.
    TableLocked,
    ColumnAdded,
    /// The database is put back to an older state while no consumer runs.
    DatabaseRestored,
    /// The same under running consumers, as by a failover that loses transactions.
    DatabaseFailedOver,
    TopicMadeAgain,
}

pub(crate) use Step::*;

impl Step {
    pub(crate) const ALL: [Self; 17] = [
        ConsumerKilled,
        PostgresKilled,
        DatabaseRestored,
        ConsumerFrozen,
        KafkaKilled,
        ColumnAdded,
        ConsumerJoins,
        DatabaseFailedOver,
        PostgresCut,
        TopicMadeAgain,
        Outage,
        KafkaCut,
        ConsumerLeaves,
        PostgresHeld,
        TableLocked,
        BackendsTerminated,
        KafkaHeld,
    ];
}

/// Operator's actions beside the faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    /// Makes nothing of parked events; forgets one that was applied.
    Forgets,
    /// Events wait in the table until they are retried or skipped.
    RetriesAndSkips,
    /// Keys wait behind dead letters until they are released.
    Releases,
}

pub(crate) use Operator::*;

#[derive(Debug, Clone)]
pub(crate) struct Draw {
    pub(crate) seed: u64,
    pub(crate) dedupe: &'static str,
    pub(crate) sqlx: bool,
    pub(crate) batch: usize,
    /// Waits in milliseconds.
    pub(crate) retry: Vec<u64>,
    pub(crate) park: Vec<u64>,
    pub(crate) operator: Operator,
    pub(crate) habits: Vec<Habit>,
    pub(crate) steps: Vec<Step>,
    pub(crate) consumers: usize,
    /// The tables are in a schema of the service's own.
    pub(crate) other_schema: bool,
    /// Another program's table `processed_messages` is in the schema.
    pub(crate) older_table: bool,
}

/// An hour: only an operator ends the wait.
const FAR_AWAY: u64 = 3_600_000;

impl Draw {
    /// Draws the run of a seed. Consecutive seeds meet each step, each operator and both drivers.
    pub(crate) fn of(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let number = |count: usize| usize::try_from(seed).unwrap() % count;
        let operator = [Forgets, RetriesAndSkips, Releases][number(3)];
        let mut habits = Vec::new();
        let possible: Vec<Habit> = Habit::ALL
            .into_iter()
            .filter(|habit| *habit != Plain && (*habit != Blocked || operator != Forgets))
            .collect();
        for _ in 0..5 {
            habits.push(possible[rng.usize(0..possible.len())]);
        }
        if operator != Forgets {
            habits.push(Blocked);
        }
        let mut steps = vec![Step::ALL[number(Step::ALL.len())]];
        while steps.len() < 3 {
            steps.push(Step::ALL[rng.usize(0..Step::ALL.len())]);
        }
        rng.shuffle(&mut steps);
        let (retry, park) = match operator {
            Forgets => (vec![100, 300], if rng.bool() { vec![500, 1500] } else { Vec::new() }),
            RetriesAndSkips => (vec![50], vec![FAR_AWAY]),
            Releases => (vec![50], Vec::new()),
        };
        let dedupe: &[&str] =
            if operator == Forgets { &["ids", "sequence", "position"] } else { &["ids", "position"] };
        let batch = [1, 1, 10, 50][rng.usize(0..4)];
        if batch > 1 {
            // Known and open: the others of its batch are applied outside of the transaction too, and again one by one.
            habits.retain(|habit| !matches!(habit, Commits | RollsBack));
        }
        Self {
            seed,
            dedupe: dedupe[rng.usize(0..dedupe.len())],
            sqlx: rng.bool(),
            batch,
            retry,
            park,
            operator,
            habits,
            steps,
            consumers: rng.usize(1..=2),
            other_schema: rng.u32(0..3) == 0,
            older_table: rng.u32(0..3) == 0,
        }
    }
}

#[test]
fn seeds_in_a_row_meet_all_steps_habits_and_operators() {
    let draws: Vec<Draw> = (0..60).map(Draw::of).collect();
    for step in Step::ALL {
        assert!(draws.iter().any(|draw| draw.steps.contains(&step)), "{step:?}");
    }
    for habit in Habit::ALL.into_iter().filter(|habit| *habit != Plain) {
        assert!(draws.iter().any(|draw| draw.habits.contains(&habit)), "{habit:?}");
    }
    for operator in [Forgets, RetriesAndSkips, Releases] {
        assert!(draws.iter().any(|draw| draw.operator == operator), "{operator:?}");
    }
}
