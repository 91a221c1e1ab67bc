//! The coverage matrix: how many runs had both of two things.

use std::collections::BTreeMap;
use std::fmt;

use crate::plan::draw::{Draw, pairs};
use crate::plan::feature::{FAULTS, Fault, Feature, GUARANTEES, OTHERS, SHAPES};

#[derive(Debug, Default)]
pub(crate) struct Matrix {
    runs: usize,
    pairs: BTreeMap<(Feature, Feature), usize>,
    faults: BTreeMap<(Feature, Fault), usize>,
}

impl Matrix {
    pub(crate) fn add(&mut self, draw: &Draw) {
        self.runs += 1;
        let mut features = draw.all();
        features.sort_unstable();
        let mut faults = draw.faults.clone();
        faults.sort_unstable();
        faults.dedup();
        for (number, one) in features.iter().enumerate() {
            for other in &features[number + 1..] {
                *self.pairs.entry((*one, *other)).or_default() += 1;
            }
            for fault in &faults {
                *self.faults.entry((*one, *fault)).or_default() += 1;
            }
        }
    }
}

/// A row for each feature: its number of runs with each feature in front of it, and with each fault. A dot: no run can have both.
impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<Feature> = GUARANTEES.into_iter().chain(SHAPES).chain(OTHERS).collect();
        let possible = pairs();
        let met = possible.iter().filter(|pair| self.pairs.contains_key(pair)).count();
        let with_faults = all.len() * FAULTS.len();
        writeln!(f, "pairs of features met: {met} of {} in {} runs", possible.len(), self.runs)?;
        writeln!(f, "pairs of a feature and a fault met: {} of {with_faults}", self.faults.len())?;
        write!(f, "{:>22}", "")?;
        (0..all.len()).try_for_each(|number| write!(f, "{number:>4}"))?;
        writeln!(f, " |{}", FAULTS.map(|fault| format!(" {fault:?}")).concat())?;
        for (number, one) in all.iter().enumerate() {
            write!(f, "{:>22}", format!("{number} {one}"))?;
            for other in &all {
                let pair = if one < other { (*one, *other) } else { (*other, *one) };
                match self.pairs.get(&pair) {
                    Some(count) => write!(f, "{count:>4}")?,
                    None if one.goes_with(*other) => write!(f, "{:>4}", 0)?,
                    None => write!(f, "{:>4}", ".")?,
                }
            }
            write!(f, " |")?;
            for fault in FAULTS {
                let width = format!("{fault:?}").len() + 1;
                write!(f, "{:>width$}", self.faults.get(&(*one, fault)).copied().unwrap_or_default())?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
