//! Short runs on real servers, in which a seed draws habits of handlers, faults, changes of the database and an operator together, and one
//! oracle judges: `oracle.rs`, to be read first.
//!
//! `INBOX_RUNS` (`FIRST..END`) and `INBOX_RUNS_SECONDS` set which seeds run and when no more are begun; `INBOX_RUNS_PLANTED` names one
//! planted mistake.

#![allow(clippy::incompatible_msrv, reason = "it is built with the toolchain of the project")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test fails by panicking, and shows what it saw"
)]

mod draw;
mod faults;
mod habit;
mod operator;
mod oracle;
mod oracle_tests;
mod planted;
#[path = "../e2e/process.rs"]
mod process;
mod service;
#[path = "../e2e/support/mod.rs"]
mod support;
mod trial;
mod world;

use std::env;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::draw::Draw;
use crate::planted::{BUDGET, Planted};
use crate::trial::Trial;
use crate::world::World;

/// In CI.
const SECONDS: u64 = 40;
/// In CI: seeds that have passed. New ones are for `.ci/campaign`.
const SEEDS: Range<u64> = 0..3;

#[test]
fn no_seed_breaks_a_promise() {
    let mut world = World::start();
    let (began, mut failures) = (Instant::now(), Vec::new());
    for seed in seeds() {
        if began.elapsed() > seconds() {
            break;
        }
        let draw = Draw::of(seed);
        println!("{draw:?}");
        let run = AssertUnwindSafe(|| Trial::start(&mut world, draw.clone(), None, "").run());
        match panic::catch_unwind(run) {
            Ok(outcome) => {
                println!(
                    "seed {seed}, {:.1} s: {}, {} violations",
                    outcome.took.as_secs_f64(),
                    outcome.figures,
                    outcome.violations.len()
                );
                failures.extend(
                    outcome.violations.into_iter().map(|violation| format!("seed {seed}: {violation}")),
                );
            }
            Err(_) => failures.push(format!("seed {seed}: panicked: {draw:?}")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn planted_mistakes_are_found() {
    let only = variable("INBOX_RUNS_PLANTED");
    let is_chosen = |planted: &Planted| only.as_ref().is_none_or(|only| *only == format!("{planted:?}"));
    // Others come first each hour, so that CI makes all of them in the course of a day.
    let first = usize::try_from(hour() * 4).unwrap() % Planted::ALL.len();
    let chosen = Planted::ALL.into_iter().cycle().skip(first).take(Planted::ALL.len()).filter(is_chosen);
    let (mut world, began) = (World::start(), Instant::now());
    let mut missed = Vec::new();
    for planted in chosen.take_while(|_| began.elapsed() < seconds()) {
        let mut found = Vec::new();
        let is_found = (1..=BUDGET).any(|seed| {
            let suffix = format!("{planted:?}");
            let outcome = Trial::start(&mut world, planted.draw(seed), Some(planted), &suffix).run();
            println!(
                "{planted:?}: seed {seed}, {:.1} s, {:?}",
                outcome.took.as_secs_f64(),
                outcome.violations
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
    match variable("INBOX_RUNS") {
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
    Duration::from_secs(variable("INBOX_RUNS_SECONDS").map_or(SECONDS, |text| text.parse().unwrap()))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}
