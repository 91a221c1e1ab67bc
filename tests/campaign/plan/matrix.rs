//! The coverage matrix: how many runs had both of two things.

use std::fmt;

use crate::plan::cover::{Cover, all, pairs};
use crate::plan::draw::Draw;
use crate::plan::feature::{FAULTS, Feature};

#[derive(Debug, Default)]
pub(crate) struct Matrix {
    runs: usize,
    cover: Cover,
}

impl Matrix {
    pub(crate) fn add(&mut self, draw: &Draw) {
        self.runs += 1;
        let mut faults = draw.faults.clone();
        faults.sort_unstable();
        faults.dedup();
        self.cover.add(&draw.all(), &faults);
    }
}

/// A row for each feature: its number of runs with each feature in front of it, and with each fault. A dot: no run can have both.
impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<Feature> = all().collect();
        let possible = pairs();
        let met = possible.iter().filter(|pair| self.cover.features.contains_key(pair)).count();
        let with_faults = all.len() * FAULTS.len();
        writeln!(f, "pairs of features met: {met} of {} in {} runs", possible.len(), self.runs)?;
        writeln!(f, "pairs of a feature and a fault met: {} of {with_faults}", self.cover.faults.len())?;
        write!(f, "{:>22}", "")?;
        (0..all.len()).try_for_each(|number| write!(f, "{number:>4}"))?;
        writeln!(f, " |{}", FAULTS.map(|fault| format!(" {fault:?}")).concat())?;
        for (number, one) in all.iter().enumerate() {
            write!(f, "{:>22}", format!("{number} {one}"))?;
            for other in &all {
                let pair = if one < other { (*one, *other) } else { (*other, *one) };
                match self.cover.features.get(&pair) {
                    Some(count) => write!(f, "{count:>4}")?,
                    None if possible.contains(&pair) => write!(f, "{:>4}", 0)?,
                    None => write!(f, "{:>4}", ".")?,
                }
            }
            write!(f, " |")?;
            for fault in FAULTS {
                let width = format!("{fault:?}").len() + 1;
                write!(f, "{:>width$}", self.cover.faults.get(&(*one, fault)).copied().unwrap_or_default())?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
