//! The relay under load while everything around it breaks, and a checker that compares the committed data with the
//! records that consumers see. See docs/reliability.md.
//!
//! `OUTBOXD_CHAOS_SECONDS`, `OUTBOXD_CHAOS_SEED` (one, or several with commas), `OUTBOXD_CHAOS_MODE`,
//! `OUTBOXD_CHAOS_SHAPE` and `OUTBOXD_CHAOS_FAULTS` (names as in the log, with commas) select the runs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test fails by panicking, and shows what it saw"
)]

mod campaign;
mod faults;
mod fleet;
mod judge;
mod load;
mod lying_broker;
mod mode;
mod outcome;
mod sabotage;
mod samples;
mod seen;
mod shape;
mod snapshots;
#[path = "../support/mod.rs"]
mod support;
mod timings;
mod truth;
mod world;

use std::env;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use crate::campaign::Plan;
use crate::faults::{Fault, MIX};
use crate::load::Load;
use crate::mode::{AVAILABLE, MODES, Mode};
use crate::outcome::Outcome;
use crate::sabotage::Sabotage;
use crate::shape::{SHAPES, Shape};
use crate::world::World;

const SECONDS: u64 = 40;
/// So much shorter is what is not tried in full unless it is asked for.
const SHORTER: u64 = 4;
/// With it PostgreSQL and the relay crash together, which is what repeats most.
const SEEDS: &str = "11";
/// Maximum number of tries, since a planted mistake may miss its occasion.
const TRIES_MAX: u64 = 4;
const LOAD: Load = Load { writers: 5, pause_max_ms: 150, large_per_mille: 4, letters_percent: 2 };

#[test]
fn nothing_is_lost_reordered_or_confirmed_early_whatever_breaks() {
    let seconds = variable("OUTBOXD_CHAOS_SECONDS").map_or(SECONDS, |text| text.parse().unwrap());
    let seeds = variable("OUTBOXD_CHAOS_SEED").unwrap_or_else(|| SEEDS.to_owned());
    let runs = runs();
    assert!(!runs.is_empty(), "no such mode or shape");
    let faults = variable("OUTBOXD_CHAOS_FAULTS");
    let named = |fault: &Fault, names: &str| names.split(',').any(|name| name == format!("{fault:?}"));
    let mix: Vec<Fault> = match &faults {
        None => MIX.to_vec(),
        Some(names) => MIX.into_iter().filter(|fault| named(fault, names)).collect(),
    };
    assert!(!mix.is_empty(), "no such fault: {faults:?}");
    let _alone = alone();
    let mut world = World::start();
    let mut outcomes = Vec::new();
    for seed in seeds.split(',').map(|seed| seed.trim().parse().unwrap()) {
        for &(shape, mode) in &runs {
            let lasts = Duration::from_secs(if is_short(shape) { seconds / SHORTER } else { seconds });
            let mix = mix.iter().copied().filter(|fault| can_be_judged(*fault, shape, mode)).collect();
            let plan = Plan { shape, mode, seed, lasts, mix, hold_ms: 20..2500, load: LOAD, sabotage: None };
            let outcome = plan.run(&mut world);
            report(&outcome);
            assert!(outcome.verdict.violations.is_empty(), "{}", failure(&outcome));
            outcomes.push(outcome);
        }
    }
    println!("{}", Outcome::head());
    outcomes.iter().for_each(|outcome| println!("{outcome}"));
}

fn is_short(shape: Shape) -> bool {
    shape == Shape::Signals && variable("OUTBOXD_CHAOS_SHAPE").is_none()
}

/// Returns whether a run with this fault can be judged. A relay that was replaced while it was paused still sends the
/// records that it has in flight: without transactions an old row may therefore come last, and only its being a repeat
/// excuses it.
fn can_be_judged(fault: Fault, shape: Shape, mode: Mode) -> bool {
    let two_may_send = matches!(fault, Fault::RelayReplaced | Fault::RelayPaused);
    shape != Shape::Signals || mode == Mode::ExactlyOnce || !two_may_send
}

/// Returns the runs: an outbox under each guarantee, and tables, with and without signals, under the one that promises
/// the most without transactions. Named modes and shapes are tried in all combinations.
fn runs() -> Vec<(Shape, Mode)> {
    let (wanted_mode, wanted_shape) = (variable("OUTBOXD_CHAOS_MODE"), variable("OUTBOXD_CHAOS_SHAPE"));
    let is_all = wanted_mode.is_none() && wanted_shape.is_none();
    let mut runs = Vec::new();
    for (shape_name, shape) in SHAPES {
        for (mode_name, mode) in MODES {
            let named = wanted_mode.as_ref().is_none_or(|wanted| wanted == mode_name)
                && wanted_shape.as_ref().is_none_or(|wanted| wanted == shape_name);
            let usual = shape == Shape::Outbox || mode == Mode::TailDedupe;
            if AVAILABLE.contains(&mode) && named && (usual || !is_all) {
                runs.push((shape, mode));
            }
        }
    }
    runs
}

/// The mistakes are all found, each by the oracle that is for it.
#[test]
fn planted_mistakes_are_found() {
    let _beside = beside_others();
    let mut world = World::start();
    let missed: Vec<_> = Sabotage::ALL
        .into_iter()
        .filter(|sabotage| !is_found(*sabotage, Shape::Outbox, &mut world))
        .collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// The same oracles watch change events.
#[test]
fn planted_mistakes_are_found_among_change_events() {
    let _beside = beside_others();
    let mut world = World::start();
    let missed: Vec<_> = Sabotage::OF_INSERTS
        .into_iter()
        .filter(|sabotage| !is_found(*sabotage, Shape::Tables, &mut world))
        .collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// Returns whether it is found within a few tries: a mistake needs its occasion.
fn is_found(sabotage: Sabotage, shape: Shape, world: &mut World) -> bool {
    let mix = vec![sabotage.occasion()];
    let letters_percent = if sabotage == Sabotage::LettersNotAwaited { 80 } else { 2 };
    let load = Load { large_per_mille: 0, letters_percent, ..LOAD };
    (1..=TRIES_MAX).any(|seed| {
        let (mode, lasts, mix) = (Mode::AtLeastOnce, Duration::from_secs(3), mix.clone());
        let plan =
            Plan { shape, mode, seed, lasts, mix, hold_ms: 1500..2000, load, sabotage: Some(sabotage) };
        let outcome = plan.run(world);
        println!("{sabotage:?}: seed {seed}: {:?}", outcome.verdict.oracles());
        outcome.verdict.oracles().contains(sabotage.oracle())
    })
}

/// Measures how soon the relay continues, in `OUTBOXD_CHAOS_CYCLES` cycles. Without this variable, on a machine that
/// has other things to do, the times are only printed: there the test only requires that the relay continues.
#[test]
fn take_overs_and_recoveries_are_quick() {
    let _alone = alone();
    let cycles = variable("OUTBOXD_CHAOS_CYCLES").map_or(1, |text| text.parse().unwrap());
    let timings = timings::measure(cycles);
    println!("| from … until … | at most | median | longest | times |\n|---|---|---|---|---|");
    timings.iter().for_each(|timing| println!("{timing}"));
    let is_judged = variable("OUTBOXD_CHAOS_CYCLES").is_some();
    assert!(!is_judged || timings.iter().all(timings::Timing::is_kept), "{timings:#?}");
}

static MACHINE: RwLock<()> = RwLock::new(());

/// Times count: no other of these tests runs meanwhile.
fn alone() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().unwrap_or_else(PoisonError::into_inner)
}

/// Mistakes are looked for, whatever the time is: others that do the same may run, each in a world of its own.
fn beside_others() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().unwrap_or_else(PoisonError::into_inner)
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}

fn report(outcome: &Outcome) {
    println!("{}\n{outcome}", Outcome::head());
    println!("repeats, by what happened then: {:#?}", outcome.verdict.repeats_of);
    println!("{:?}, {} samples", outcome.usage, outcome.samples);
}

fn failure(outcome: &Outcome) -> String {
    let (log, violations) = (outcome.log.join("\n"), outcome.verdict.violations.join("\n"));
    format!(
        "seed {}, {:?}, {:?}\n{violations}\n{log}",
        outcome.plan.seed, outcome.plan.shape, outcome.plan.mode
    )
}
