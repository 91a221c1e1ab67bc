use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::bug::Bug;
use super::rows::changes;
use super::rows::table;
use super::run::{Tally, run};
use super::world::Bench;
use crate::outbox::MessageOutbox;
use crate::postgres::{Peer, SlotName, SlotOptions, SlotRecovery};
use crate::relay::capture::route::Route;
use crate::relay::options::Guarantee::{self, AtLeastOnce, ExactlyOnce, TailDedupe};
use crate::relay::options::{GuardOptions, Options, PositionOptions, ProcessingFailure, SkippedOperations};
use crate::telemetry::{ConfigInfo, Limits, Metrics, Status};

/// Seeds of a run. The first one changes each day, so that runs cover other seeds; `OUTBOXD_SEEDS=a..b` names the seeds instead.
const SEEDS: u64 = 600;
const SEEDS_OF_CHANGES: u64 = 150;
const SECONDS_OF_A_DAY: u64 = 86_400;

fn bench(guarantee: Guarantee, tells: bool) -> Bench {
    let router = table::router();
    bench_of(Some(table::messages(&router)), Route::Outbox(router), guarantee, tells)
}

/// Makes a bench in which rows become change events.
fn bench_of_changes(guarantee: Guarantee, tells: bool) -> Bench {
    bench_of(None, Route::Changes(changes::route()), guarantee, tells)
}

fn bench_of(messages: Option<MessageOutbox>, route: Route, guarantee: Guarantee, tells: bool) -> Bench {
    Bench {
        messages,
        route,
        tells,
        filters: [table::filter(&[r"public\.outbox"]), table::filter(&[])],
        status: Status::new(Limits::default(), Instant::now()),
        metrics: Metrics::new(&ConfigInfo::default()),
        slot: SlotOptions {
            name: SlotName::default(),
            drop_on_stop: false,
            failover: false,
            recovery: SlotRecovery::Fail,
            retry: None,
            stream_params: Vec::new(),
            xmin_interval: None,
            peer: Peer::default(),
        },
        options: Options {
            inflight_records_max: 12,
            inflight_bytes_max: 300,
            shutdown_timeout: Duration::from_secs(1),
            startup_timeout: None,
            retries_max: None,
            tolerate_rows: false,
            dead_letters: None,
            unreadable_rows: ProcessingFailure::Fail,
            skipped: SkippedOperations { create: false, update: false, delete: false, truncate: true },
            heartbeat: None,
            guard: GuardOptions {
                warn_bytes: None,
                warn_percent: 50,
                alarm_percent: 80,
                unacknowledged_max: Duration::from_secs(60),
            },
            offsets: None,
            position: PositionOptions::default(),
            guarantee,
            identity_headers: guarantee == TailDedupe,
            signals: crate::signal::SignalOptions::none(),
            notifications: crate::signal::NotificationOptions::default(),
            cleanup: crate::cleanup::CleanupOptions::default(),
            transactions: None,
        },
    }
}

/// Returns the named seeds, or else `count` seeds of today.
fn seeds(count: u64) -> Range<u64> {
    let Ok(text) = std::env::var("OUTBOXD_SEEDS") else {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let first = since_1970.as_secs() / SECONDS_OF_A_DAY * SEEDS;
        return first..first + count;
    };
    let (from, to) = text.split_once("..").expect("OUTBOXD_SEEDS=a..b");
    from.parse().unwrap()..to.parse().unwrap()
}

#[test]
fn no_seed_breaks_a_promise() {
    all_seeds(bench, AtLeastOnce, seeds(SEEDS));
}

#[test]
fn no_seed_breaks_a_promise_of_tail_dedupe() {
    all_seeds(bench, TailDedupe, seeds(SEEDS));
}

#[test]
fn no_seed_commits_anything_twice() {
    all_seeds(bench, ExactlyOnce, seeds(SEEDS));
}

/// Only the conversion of rows differs; all else is the same code, so that fewer seeds suffice.
#[test]
fn no_seed_breaks_a_promise_of_change_events() {
    for guarantee in [AtLeastOnce, TailDedupe, ExactlyOnce] {
        all_seeds(bench_of_changes, guarantee, seeds(SEEDS_OF_CHANGES));
    }
}

/// Maker of a bench for a guarantee, with or without a trace of what happens.
type MakeBench = fn(Guarantee, bool) -> Bench;

fn all_seeds(bench: MakeBench, guarantee: Guarantee, seeds: Range<u64>) {
    let middle = seeds.start + (seeds.end - seeds.start) / 2;
    let halves = [seeds.start..middle, middle..seeds.end];
    let tallies = thread::scope(|scope| {
        let threads = halves.map(|half| scope.spawn(move || all(bench, guarantee, half)));
        threads.map(|thread| thread.join().expect("a seed fails, see above"))
    });
    let total = tallies.into_iter().fold(Tally::default(), plus);
    println!("{guarantee:?}, seeds {seeds:?}: {total:?}");
}

fn all(bench: MakeBench, guarantee: Guarantee, seeds: Range<u64>) -> Tally {
    let bench = bench(guarantee, seeds.end - seeds.start == 1);
    seeds.map(|seed| run_told(&bench, seed)).fold(Tally::default(), plus)
}

fn run_told(bench: &Bench, seed: u64) -> Tally {
    let outcome = catch_unwind(AssertUnwindSafe(|| run(bench, seed, None)));
    let said = match outcome {
        Ok(Ok(tally)) => return tally,
        Ok(Err(violation)) => violation,
        Err(_) => "an assertion fails, see above".to_owned(),
    };
    let test = match bench.options.guarantee {
        _ if bench.sends_changes() => "no_seed_breaks_a_promise_of_change_events",
        TailDedupe => "no_seed_breaks_a_promise_of_tail_dedupe",
        ExactlyOnce => "no_seed_commits_anything_twice",
        AtLeastOnce => "no_seed_breaks_a_promise",
    };
    panic!("seed {seed}: {said}\nreplay: OUTBOXD_SEEDS={seed}..{} cargo test --lib {test}", seed + 1);
}

fn plus(a: Tally, b: Tally) -> Tally {
    Tally {
        events: a.events + b.events,
        repeats: a.repeats + b.repeats,
        faults: a.faults + b.faults,
        processes: a.processes + b.processes,
        told: a.told + b.told,
        meddled: a.meddled + b.meddled,
    }
}

#[test]
fn a_seed_says_everything() {
    for bench in [AtLeastOnce, TailDedupe, ExactlyOnce].map(|guarantee| bench(guarantee, false)) {
        for seed in 0..60 {
            assert_eq!(run(&bench, seed, None), run(&bench, seed, None), "seed {seed} does not replay");
        }
    }
}

/// Each planted bug is found within this number of seeds.
#[test]
fn planted_bugs_are_found() {
    let cases = [
        (Bug::ConfirmsOnReceive, 100),
        (Bug::ConfirmsKeepalives, 100),
        (Bug::ConfirmsTheLatest, 100),
        (Bug::ConfirmsTheNext, 100),
        (Bug::RowLsnIsIdentity, 100),
        (Bug::SkipsFirstRow, 100),
        (Bug::GivesUp, 1000),
        (Bug::NotIdempotent, 300),
        (Bug::FailureIsSuccess, 300),
        (Bug::StaleRelation, 300),
        (Bug::IgnoresNotice, 300),
        (Bug::OldHistoryCounts, 300),
        (Bug::BelievesLsns, 300),
        (Bug::BelievesReports, 300),
        (Bug::DoesNotSettle, 300),
        (Bug::WaitsForEver, 1000),
        (Bug::FirstHasCompany, 300),
        (Bug::NotGapless, 300),
        (Bug::DoesNotDrain, 300),
        (Bug::ForgetsSessions, 300),
        (Bug::WaitsForThePast, 300),
        (Bug::PauseForgets, 300),
        (Bug::ConfirmsBeforeKept, 300),
        (Bug::GoesOnWithoutRight, 300),
        (Bug::AcceptsTwice, 1000),
        (Bug::DoesNotCompare, 300),
        (Bug::IgnoresMove, 600),
        (Bug::CreatesAtOnce, 300),
        (Bug::ForgetsEpochs, 300),
        (Bug::BelievesLastPosition, 600),
        (Bug::CapturesByName, 300),
        (Bug::SkipsUnusable, 300),
        (Bug::ForgetsIdentities, 300),
    ];
    find(&bench(AtLeastOnce, false), &cases);
}

/// The bugs that concern only change events.
#[test]
fn planted_bugs_of_change_events_are_found() {
    let cases = [(Bug::PassesDeletes, 100), (Bug::SkipsFirstRow, 100)];
    find(&bench_of_changes(AtLeastOnce, false), &cases);
    find(
        &bench_of_changes(TailDedupe, false),
        &[(Bug::ContentsAreIdentity, 100), (Bug::SkipsRestOfEvent, 300)],
    );
    find(&bench_of_changes(ExactlyOnce, false), &[(Bug::PassesDeletes, 100), (Bug::StateBehind, 300)]);
}

/// Each mistake that can be made with the ends of topics.
#[test]
fn planted_bugs_of_tail_dedupe_are_found() {
    let cases = [
        (Bug::TailOfTopic, 300),
        (Bug::TailOfPartition, 1000),
        (Bug::TailOfPartitionNow, 1000),
        (Bug::PositionIsIdentity, 1000),
        (Bug::SkipsRestOfEvent, 300),
        (Bug::ConfirmsOnReceive, 100),
        (Bug::OldHistoryCounts, 300),
        (Bug::BelievesLsns, 300),
    ];
    find(&bench(TailDedupe, false), &cases);
}

#[test]
fn planted_bugs_of_exactly_once_are_found() {
    let cases = [
        (Bug::ConfirmsOnReceive, 100),
        (Bug::ConfirmsTheLatest, 100),
        (Bug::RowLsnIsIdentity, 100),
        (Bug::FailureIsSuccess, 300),
        (Bug::BelievesReports, 300),
        (Bug::DoesNotDrain, 300),
        (Bug::StateBehind, 300),
        (Bug::StateIsCause, 300),
        (Bug::HangsUpAtOnce, 300),
        (Bug::SkipsRestOfEvent, 1000),
        (Bug::BelievesLsns, 300),
        (Bug::ReusesProducer, 300),
        (Bug::TrustsRetriedCommits, 1200),
        (Bug::StartsAtState, 300),
        (Bug::DoesNotFence, 300),
        (Bug::ReadsUncommitted, 300),
        (Bug::ConfirmsPromises, 300),
        (Bug::WritesBehindLeftovers, 1000),
    ];
    find(&bench(ExactlyOnce, false), &cases);
}

fn find(bench: &Bench, cases: &[(Bug, u64)]) {
    let mut missed = Vec::new();
    for (bug, within) in cases.iter().copied() {
        match (0..within).find_map(|seed| Some((seed, caught(bench, seed, bug)?))) {
            Some((seed, said)) => println!("{bug:?}: seed {seed}: {said}"),
            None => missed.push(bug),
        }
    }
    assert_eq!(missed, [], "not found within the seeds");
}

fn caught(bench: &Bench, seed: u64, bug: Bug) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(|| run(bench, seed, Some(bug)))) {
        Ok(Ok(_)) => None,
        Ok(Err(violation)) => Some(violation),
        Err(_) => Some("an assertion of the relay".to_owned()),
    }
}
