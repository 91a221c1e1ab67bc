//! One backlog, worked off by everybody in turn.

use pg_replication::wal::Lsn;

use crate::backlog::{self, Backlog};
use crate::connect::Worker;
use crate::contestant::{Contestant, Field, Took};
use crate::lab::Lab;
use crate::options::{Options, Shape};
use crate::table::{self, Row};

/// The first round: it does not count, since virtual machines compile in it.
pub(crate) const WARM_UP: u32 = 0;

/// A contestant's turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trial<'a> {
    pub(crate) lab: &'a Lab,
    pub(crate) slot: &'a str,
    /// The records that it has to write, topic by topic.
    pub(crate) records: &'a [u64],
    /// Behind the last of them.
    pub(crate) end: Lsn,
    pub(crate) shape: Shape,
}

/// Returns whether every contestant succeeded.
pub(crate) fn run(options: &Options) -> bool {
    let lab = Lab::start(options);
    let field = Field::gather(options, &lab.bindir(), |options| Worker::start(options, &lab));
    lab.describe(options);
    let contestants = field.for_backlog();
    let slots: Vec<String> = (0..=options.rounds)
        .flat_map(|round| contestants.iter().map(move |&contestant| slot(contestant, round)))
        .collect();
    lab.create_slots(&slots);
    let Backlog { end, records } = backlog::write(&lab, options);
    let mut rows: Vec<Row> = contestants.iter().map(|&contestant| Row::new(contestant)).collect();
    for round in 0..=options.rounds {
        for at in turns(rows.len(), round) {
            let row = &mut rows[at];
            let slot = slot(row.contestant, round);
            let trial = Trial { lab: &lab, slot: &slot, records: &records, end, shape: options.shape };
            let outcome = field.drain(row.contestant, &trial);
            report(round, row.contestant, &outcome);
            if round != WARM_UP || outcome.is_err() {
                row.outcomes.push(outcome);
            }
            lab.drop_slot(&slot);
        }
    }
    println!("\n{}", table::markdown(&rows, options, records.iter().sum()));
    rows.iter().all(Row::succeeded)
}

/// Returns the order of a round: it rotates, so that no contestant is always the first.
pub(crate) fn turns(count: usize, round: u32) -> impl Iterator<Item = usize> {
    let first = usize::try_from(round).unwrap() % count.max(1);
    (0..count).map(move |turn| (first + turn) % count)
}

/// Returns a name that is legal for slots, connectors and topics.
fn slot(contestant: Contestant, round: u32) -> String {
    format!("{contestant}_{round}")
}

fn report(round: u32, contestant: Contestant, outcome: &Result<Took, String>) {
    let round = if round == WARM_UP { "warm-up".to_owned() } else { format!("round {round}") };
    match outcome {
        Ok(took) => println!("{round}: {contestant} {:.2} s", took.wall.as_secs_f64()),
        Err(reason) => println!("{round}: {contestant} failed: {reason}"),
    }
}
