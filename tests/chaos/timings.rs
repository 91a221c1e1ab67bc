//! Time until another relay has taken over, and until the delay after a server's absence is made up.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use outboxd::internals::throwaway::StopMode;

use crate::fleet::Fleet;
use crate::mode::Mode;
use crate::shape::Shape;
use crate::support::wait::{DEADLINE, eventually, let_pass};
use crate::world::{Site, WAL_SENDER_TIMEOUT_S, World};

/// Absence of a server, long enough that the relay does not retry every moment.
const AWAY: Duration = Duration::from_secs(8);

/// Measured durations and their limit.
#[derive(Debug)]
pub(crate) struct Timing {
    what: &'static str,
    most: Duration,
    times: Vec<Duration>,
}

/// Measures each time so often.
pub(crate) fn measure(cycles: usize) -> Vec<Timing> {
    let take_over = Duration::from_secs(WAL_SENDER_TIMEOUT_S + 5);
    let mut timings = [
        ("kill -9 of a relay, until the second one streams", take_over),
        ("SIGSTOP of a relay, until the second one streams", take_over),
        ("fast stop of PostgreSQL while Kafka does not answer", Duration::from_secs(5)),
        ("PostgreSQL accepts connections again, until a new row is confirmed", Duration::from_secs(3)),
        ("Kafka goes on after 8 s of SIGSTOP, until everything is confirmed", Duration::from_secs(5)),
    ]
    .map(|(what, most)| Timing { what, most, times: Vec::new() });
    let mut world = World::start();
    let site = Site::create(&world, Shape::Outbox, Mode::AtLeastOnce, 3500, None);
    let mut fleet = Fleet::start(site.config.clone(), Arc::new(AtomicU32::new(0)));
    site.db.wait_until_streaming();
    for _ in 0..cycles {
        let [killed, paused, stopped, started, resumed] = &mut timings;
        killed.times.push(take_over_from(&mut fleet, &site, Fleet::kill));
        paused.times.push(take_over_from(&mut fleet, &site, Fleet::pause));
        let (stop, start) = restart_postgres_without_kafka(&mut world, &site);
        stopped.times.push(stop);
        started.times.push(start);
        resumed.times.push(pause_kafka(&mut world, &site));
    }
    timings.into()
}

fn take_over_from(fleet: &mut Fleet, site: &Site, harm: fn(&mut Fleet)) -> Duration {
    fleet.start_second(&site.db);
    emit(site);
    harm(fleet);
    let took = fleet.swap(&site.db, DEADLINE);
    site.db.wait_until_confirmed();
    fleet.drop_second();
    took
}

fn restart_postgres_without_kafka(world: &mut World, site: &Site) -> (Duration, Duration) {
    world.kafka.pause();
    emit(site);
    site.db.disconnect();
    let began = Instant::now();
    world.postgres.stop(StopMode::Fast, DEADLINE).unwrap();
    let stop = began.elapsed();
    let_pass(AWAY);
    world.kafka.resume();
    world.postgres.start_again().unwrap();
    let began = Instant::now();
    emit(site);
    site.db.wait_until_confirmed();
    (stop, began.elapsed())
}

fn pause_kafka(world: &mut World, site: &Site) -> Duration {
    world.kafka.pause();
    emit(site);
    let target = site.db.current_wal_lsn();
    let_pass(AWAY);
    let confirmed = || site.db.slot().is_some_and(|slot| slot.confirmed_flush_lsn >= Some(target));
    assert!(!confirmed(), "confirmed without Kafka");
    world.kafka.resume();
    let began = Instant::now();
    eventually(DEADLINE, "everything is confirmed", confirmed);
    began.elapsed()
}

/// Commits a transaction of a thousand rows, large and small.
fn emit(site: &Site) {
    site.db.execute("SELECT emit(1000, ARRAY[1, 2, 3, 4, 5])");
}

impl Timing {
    /// Returns whether no duration exceeds the limit.
    pub(crate) fn is_kept(&self) -> bool {
        self.times.iter().all(|time| *time <= self.most)
    }
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut times = self.times.clone();
        times.sort_unstable();
        let [median, longest] = [times.len() / 2, times.len() - 1].map(|place| times[place].as_secs_f64());
        let (what, most) = (self.what, self.most.as_secs());
        write!(f, "| {what} | {most} s | {median:.1} s | {longest:.1} s | {} |", times.len())
    }
}
