//! The table of medians, as Markdown.

use std::time::Duration;

use crate::contestant::{Contestant, Took};
use crate::options::Options;
use crate::usage::Usage;

/// Results of a contestant, round by round.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) contestant: Contestant,
    pub(crate) outcomes: Vec<Result<Took, String>>,
}

/// The medians of a contestant that did not fail.
struct Medians {
    wall: f64,
    first: Option<f64>,
    cpu: Option<f64>,
    peak_mib: Option<f64>,
}

impl Row {
    pub(crate) const fn new(contestant: Contestant) -> Self {
        Self { contestant, outcomes: Vec::new() }
    }

    pub(crate) fn succeeded(&self) -> bool {
        self.outcomes.iter().all(Result::is_ok)
    }

    /// Returns the medians; `None` if the contestant failed in a round.
    fn medians(&self) -> Option<Medians> {
        let took: Vec<&Took> = self.outcomes.iter().map(Result::as_ref).collect::<Result<_, _>>().ok()?;
        let usages: Vec<Usage> = took.iter().filter_map(|took| took.usage).collect();
        Some(Medians {
            wall: median(took.iter().map(|took| took.wall.as_secs_f64()).collect())?,
            first: median(
                took.iter().filter_map(|took| took.first).map(|d: Duration| d.as_secs_f64()).collect(),
            ),
            cpu: median(usages.iter().map(|usage| usage.cpu.as_secs_f64()).collect()),
            peak_mib: median(usages.iter().filter_map(|usage| usage.peak_bytes).map(mebibytes).collect()),
        })
    }
}

/// Returns the table of results. Each contestant had to write `records` records.
pub(crate) fn markdown(rows: &[Row], options: &Options, records: u64) -> String {
    let floor = rows.iter().find(|row| row.contestant == Contestant::RecvLogical).and_then(Row::medians);
    let mut lines = vec![
        format!("Medians of {} rounds after one to warm up:\n", options.rounds),
        "| | wall s | first record s | records/s | × pg_recvlogical | CPU µs/record | peak MiB |".to_owned(),
        "| --- | --: | --: | --: | --: | --: | --: |".to_owned(),
    ];
    lines.extend(rows.iter().map(|row| line(row, records, floor.as_ref())));
    lines.join("\n")
}

fn line(row: &Row, records: u64, floor: Option<&Medians>) -> String {
    let contestant = row.contestant;
    let Some(Medians { wall, first, cpu, peak_mib }) = row.medians() else {
        return format!("| {contestant} | failed | | | | | |");
    };
    let count = count(records);
    let rate = count / wall;
    let ratio = shown(floor.map(|floor| floor.wall / wall), 2);
    let cpu = shown(cpu.map(|seconds| seconds * 1e6 / count), 2);
    let (first, peak_mib) = (shown(first, 2), shown(peak_mib, 0));
    format!("| {contestant} | {wall:.2} | {first} | {rate:.0} | {ratio} | {cpu} | {peak_mib} |")
}

fn shown(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.decimals$}"))
}

/// Returns the middle value, or the mean of the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        1 => values.get(middle).copied(),
        _ => Some((values.get(middle.checked_sub(1)?)? + values.get(middle)?) / 2.0),
    }
}

/// Returns the number of rows as a divisor.
pub(crate) fn count(rows: u64) -> f64 {
    f64::from(u32::try_from(rows).expect("fewer rows than 4 billion"))
}

pub(crate) fn mebibytes(bytes: u64) -> f64 {
    count(bytes >> 10) / 1024.0
}
