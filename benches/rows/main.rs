//! Cost of a row on its way, step by step and without servers: time by criterion, allocations counted.
//!
//! ```console
//! $ cargo bench --bench rows              # all, in half a minute
//! $ cargo bench --bench rows -- route     # those whose name contains it
//! ```
//!
//! Inputs are made by code, the same in every run.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark fails by panicking, and prints what it counted"
)]

mod changes;
mod convert;
mod decode;
mod feedback;
mod input;
mod ledger;
mod measured;
mod offline;
mod route;

use std::time::Duration;

use criterion::Criterion;

const WARM_UP: Duration = Duration::from_millis(300);
const MEASURED: Duration = Duration::from_millis(500);

fn main() {
    let settings = Criterion::default()
        .warm_up_time(WARM_UP)
        .measurement_time(MEASURED)
        .sample_size(30)
        .nresamples(10_000);
    let mut criterion = settings.configure_from_args();
    decode::benches(&mut criterion);
    route::benches(&mut criterion);
    convert::benches(&mut criterion);
    changes::benches(&mut criterion);
    ledger::benches(&mut criterion);
    feedback::benches(&mut criterion);
    offline::benches(&mut criterion);
    criterion.final_summary();
}
