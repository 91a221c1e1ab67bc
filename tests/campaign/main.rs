//! Short runs on real servers, in which a seed draws features, operations and faults together, and one oracle judges:
//! `oracle.rs`, which should be read first. docs/reliability.md describes the draws and how to repeat a seed.
//!
//! `OUTBOXD_RUNS` (`FIRST..END`) selects the seeds, and `OUTBOXD_RUNS_SECONDS` is the time after which no run begins;
//! `OUTBOXD_RUNS_WITH` names features that a seed must have, with commas; `OUTBOXD_RUNS_PLANTED` names one planted
//! mistake, and `OUTBOXD_TEST_PROGRAM` another build of the program.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test fails by panicking, and shows what it saw"
)]

mod course;
mod facts;
mod judgement;
mod oracle;
mod oracle_tests;
mod plan;
mod planted;
#[path = "../support/mod.rs"]
mod support;

use std::env;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::course::outcome::Figures;
use crate::course::trial::Trial;
use crate::course::world::World;
use crate::plan::draw::Draw;
use crate::plan::matrix::Matrix;
use crate::planted::{BUDGET, Planted};

/// In CI.
const SECONDS: u64 = 40;
/// In CI: seeds that have passed. New ones are for `.ci/campaign`, since they may also show a mistake of the oracle.
const SEEDS: Range<u64> = 125..128;

#[test]
fn no_seed_breaks_a_promise() {
    let seeds = seeds();
    println!("seeds {seeds:?}, {:?}", seconds());
    let mut world = World::start();
    let began = Instant::now();
    let (mut matrix, mut figures) = (Matrix::default(), Figures::default());
    for seed in seeds {
        if began.elapsed() > seconds() {
            break;
        }
        let draw = Draw::of(seed);
        let has = |name: &str| draw.all().iter().any(|feature| format!("{feature}") == name);
        if variable("OUTBOXD_RUNS_WITH").is_some_and(|names| !names.split(',').all(has)) {
            continue;
        }
        matrix.add(&draw);
        // A run that cannot continue is reported with its seed, and the next one begins.
        let run = AssertUnwindSafe(|| Trial::start(&mut world, draw.clone(), None).run());
        match panic::catch_unwind(run) {
            Ok(outcome) => {
                println!("{outcome}");
                figures.add(&outcome);
            }
            Err(_) => figures.failures.push(format!("seed {seed}: panicked: {draw:?}")),
        }
    }
    println!("{matrix}\n{figures}");
    assert!(figures.failures.is_empty(), "{}", figures.failures.join("\n\n"));
}

#[test]
fn planted_mistakes_are_found() {
    let only = variable("OUTBOXD_RUNS_PLANTED");
    let is_chosen = |planted: &Planted| only.as_ref().is_none_or(|only| *only == format!("{planted:?}"));
    // Others come first each hour, so that CI makes all of them in the course of a day.
    let first = usize::try_from(hour() * 4).unwrap() % Planted::ALL.len();
    let chosen = Planted::ALL.into_iter().cycle().skip(first).take(Planted::ALL.len()).filter(is_chosen);
    let (mut world, began) = (World::start(), Instant::now());
    let mut missed = Vec::new();
    for planted in chosen.take_while(|_| began.elapsed() < seconds()) {
        let mut found = Vec::new();
        let is_found = (1..=BUDGET).any(|seed| {
            let outcome = Trial::start(&mut world, planted.draw(seed), Some(planted)).run();
            println!(
                "{planted:?}: seed {seed}, {:.1} s, {} violations",
                outcome.took.as_secs_f64(),
                outcome.violations.len()
            );
            found.extend(outcome.violations);
            found.iter().any(|violation| violation.starts_with(planted.rule()))
        });
        if !is_found {
            missed.push(format!("{planted:?} is not found as {}: {found:#?}", planted.rule()));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

fn seeds() -> Range<u64> {
    match variable("OUTBOXD_RUNS") {
        Some(text) => {
            let (first, end) = text.split_once("..").unwrap();
            first.parse().unwrap()..end.parse().unwrap()
        }
        None => SEEDS,
    }
}

fn hour() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 3600
}

/// Returns the time after which no run begins.
fn seconds() -> Duration {
    Duration::from_secs(variable("OUTBOXD_RUNS_SECONDS").map_or(SECONDS, |text| text.parse().unwrap()))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}
