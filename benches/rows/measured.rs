//! One step: how long it takes, and what it allocates a row.

use allocation_counter::measure;
use criterion::{Criterion, Throughput};

/// Runs before allocations are counted: buffers have grown and ids are learnt, as after the first rows of a stream.
const RUNS_BEFORE: u32 = 3;

/// Measures `step`, which handles this many rows at a time.
pub(crate) fn step(criterion: &mut Criterion, name: &str, rows: u32, mut step: impl FnMut()) {
    (0..RUNS_BEFORE).for_each(|_| step());
    let allocated = measure(&mut step);
    let a_row = |total: u64| mean(total, rows);
    let (count, bytes) = (a_row(allocated.count_total), a_row(allocated.bytes_total));
    println!("{name}: {count:.1} allocations a row, {bytes:.0} bytes");
    let (group, function) = name.split_once('/').unwrap();
    let mut group = criterion.benchmark_group(group);
    group.throughput(Throughput::Elements(rows.into()));
    group.bench_function(function, |bencher| bencher.iter(&mut step));
    group.finish();
}

fn mean(total: u64, rows: u32) -> f64 {
    // Far below 2^32 for one run of a step.
    f64::from(u32::try_from(total).unwrap()) / f64::from(rows)
}
