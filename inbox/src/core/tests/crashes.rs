//! Tests of crashes.

use std::collections::BTreeSet;
use std::ops::Range;

use proptest::prelude::*;

use super::*;

const EVENTS: i64 = 40;

/// State that outlives the process: the contents of PostgreSQL for the partition.
#[derive(Default)]
struct Remembered {
    done: BTreeSet<i64>,
    dead: BTreeSet<i64>,
    /// Offsets of the events at which handlers may have been.
    range: Range<i64>,
    begun: BTreeMap<i64, u32>,
    /// Offsets of the parked events, each with its number of crashes at the time of parking.
    table: BTreeMap<i64, u32>,
}

impl Remembered {
    /// Stores the mark of a job before its handler begins. The mark includes the next events, unless the event is a suspect.
    fn mark(&mut self, job: &Job, marked_until: &mut i64) {
        if let [event] = job.events.as_slice()
            && (job.begun > 0 || job.is_parked)
        {
            self.begun.insert(event.offset, job.begun + 1);
            return;
        }
        let last = job.events.iter().map(|event| event.offset).max().unwrap();
        if last >= *marked_until {
            *marked_until = last + 16;
            self.range = job.open_from..self.range.end.max(*marked_until);
        }
    }

    fn is_over(&self) -> bool {
        (0..EVENTS).all(|offset| self.done.contains(&offset) || self.dead.contains(&offset))
    }
}

/// Runs a process until all events have ended or a handler ends the process.
fn live(remembered: &mut Remembered, options: &Options, crashers: &BTreeSet<i64>, rng: &mut fastrand::Rng) {
    let suspects = Suspects::new(remembered.range.clone(), remembered.begun.clone());
    let mut world = World::new(options.clone(), 0);
    world.turn(Input::Assigned(partition(0)));
    let taken = world.some(|action| if let Action::Take(tenure) = action { Some(tenure) } else { None });
    let key = |offset: i64| u8::try_from(offset % 7).unwrap();
    let parked = |offset: &i64| ParkedEvent {
        key: Some(vec![key(*offset)]),
        offset: *offset,
        wait: Some(Duration::ZERO),
    };
    let parked = remembered.table.keys().map(parked).collect();
    world.turn(Input::Taken { tenure: taken[0].clone(), suspects, parked, is_rewound: false });
    for offset in 0..EVENTS {
        world.receive(0, &[(offset, key(offset))]);
    }
    let (mut running, mut marked_until) = (Vec::<Job>::new(), 0);
    while !remembered.is_over() {
        for job in world.jobs() {
            remembered.mark(&job, &mut marked_until);
            running.push(job);
        }
        for dead in world.surrenders() {
            assert_eq!(dead.reason, Reason::Crashed);
            remembered.dead.insert(dead.event.offset);
            remembered.begun.remove(&dead.event.offset);
            remembered.table.remove(&dead.event.offset);
            world.turn(Input::Surrendered { id: dead.id, has_number: false });
        }
        for park in world.parks() {
            for event in &park.events {
                remembered.table.entry(event.offset).or_insert(0);
            }
            if let Some(failed) = &park.failed {
                assert!(failed.wait > Duration::ZERO && failed.begun > 0);
                remembered.table.insert(park.events[0].offset, failed.begun);
            }
            world.turn(Input::Parked { id: park.id, is_parked: true });
        }
        for load in world.loads() {
            let LaneName::Key(name) = &load.lane else { unreachable!() };
            let first = remembered.table.iter().find(|(offset, _)| key(**offset) == name[0]);
            let loaded = first.map_or(Loaded::Nothing, |(offset, begun)| Loaded::Due {
                event: event(0, *offset, name[0]),
                attempts: 0,
                begun: *begun,
            });
            world.turn(Input::Loaded { id: load.id, loaded });
        }
        if running.is_empty() {
            world.pass(Duration::from_secs(3600));
            continue;
        }
        let job = running.swap_remove(rng.usize(..running.len()));
        // Events that were done or given up before are not handled again.
        let is_new = |offset: &i64| !remembered.done.contains(offset) && !remembered.dead.contains(offset);
        let offsets: Vec<i64> = job.events.iter().map(|event| event.offset).filter(is_new).collect();
        if offsets.iter().any(|offset| crashers.contains(offset)) {
            return;
        }
        remembered.done.extend(offsets);
        for event in &job.events {
            remembered.begun.remove(&event.offset);
            remembered.table.remove(&event.offset);
        }
        world.end(&job, Outcome::Done);
    }
}

proptest! {
    /// Any number of events that end the process become dead letters, after at most six crashes each, and no other event does,
    /// whichever events run beside them. Each waits three times before that.
    #[test]
    fn a_neighbour_that_ends_the_process_makes_no_dead_letter_of_a_sane_event(
        crashers in prop::collection::btree_set(0..EVENTS, 0..5),
        workers in 1..6_usize,
        batch in 1..5_usize,
        seed in any::<u64>(),
    ) {
        let of = |n: usize| NonZeroUsize::new(n).unwrap();
        let options = Options { workers: of(workers), batch: of(batch), ..options() };
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut remembered = Remembered::default();
        let mut ends = 0;
        while !remembered.is_over() {
            live(&mut remembered, &options, &crashers, &mut rng);
            ends += usize::from(!remembered.is_over());
            prop_assert!(ends <= 6 * crashers.len(), "{ends} ends");
        }
        prop_assert_eq!(&remembered.dead, &crashers);
    }
}
