//! Pattern of the existing partitions.

use jiff::civil::DateTime;
use jiff::{SignedDuration, Span};

use super::bounds::{Bound, Range};

/// Formats of the begin of a partition in names.
const LABELS: [&str; 13] = [
    "%Y%m%d_%H%M%S",
    "%Y%m%d_%H%M",
    "%Y%m%d_%H",
    "%Y%m%d%H",
    "%Y_%m_%d_%H",
    "%Y%m%d",
    "%Y_%m_%d",
    "%Y-%m-%d",
    "%Gw%V",
    "%Y%m",
    "%Y_%m",
    "%Y-%m",
    "%Y",
];
/// Fewer partitions show no pattern.
pub(super) const PARTITIONS_MIN: usize = 2;

/// Reasons why no partition is made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Irregular {
    #[error("it is not partitioned by the range of one column of a type for times or whole numbers")]
    Key,
    #[error(
        "it has fewer than two partitions with a beginning and an end: too few to show how they continue"
    )]
    Few,
    #[error("{0} ends at MAXVALUE: there is no room for a partition behind it")]
    Endless(String),
    #[error("between {0} and {1} is a gap")]
    Gap(String, String),
    #[error("{0} does not have the same length as the other partitions, in hours, days or months of UTC")]
    Length(String),
    #[error(
        "the names of the partitions do not all contain their beginning in one form, such as outbox_20260131"
    )]
    Names,
}

/// A partition, as far as the pattern goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named<'n> {
    pub(super) name: &'n str,
    pub(super) range: Range,
}

/// A partition that is to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Coming {
    pub(crate) name: String,
    pub(crate) lower: Bound,
    pub(crate) upper: Bound,
}

/// Step from one partition to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Number(i64),
    Months(i32),
    Time(SignedDuration),
}

/// Series of names.
enum Names<'n> {
    /// Named by the begin of the partition.
    Label { prefix: &'n str, format: &'static str },
    /// Named by a number that grows: the last one, the step, and the number of digits if there are leading
    /// zeros.
    Number { prefix: &'n str, last: i64, by: i64, digits: usize },
}

/// Common pattern of partitions, and their end.
pub(super) struct Pattern<'n> {
    step: Step,
    names: Names<'n>,
    end: Bound,
}

impl<'n> Pattern<'n> {
    /// Finds the pattern of these, in any order.
    pub(super) fn of(partitions: &[Named<'n>]) -> Result<Self, Irregular> {
        let mut known = Vec::new();
        for Named { name, range } in partitions {
            match (range.lower, range.upper) {
                (Some(lower), Some(upper)) => known.push((*name, lower, upper)),
                (_, None) => return Err(Irregular::Endless((*name).to_owned())),
                (None, Some(_)) => {}
            }
        }
        known.sort_by_key(|(_, lower, _)| *lower);
        if known.len() < PARTITIONS_MIN {
            return Err(Irregular::Few);
        }
        for (before, after) in known.iter().zip(known.iter().skip(1)) {
            if before.2 != after.1 {
                return Err(Irregular::Gap(before.0.to_owned(), after.0.to_owned()));
            }
        }
        let step = step(&known)?;
        let names = Names::of(&known, step).ok_or(Irregular::Names)?;
        let end = known.last().map(|(_, _, upper)| *upper).ok_or(Irregular::Few)?;
        Ok(Self { step, names, end })
    }

    /// Returns the next partition; none where numbers or times end.
    pub(super) fn next(&mut self) -> Option<Coming> {
        let lower = self.end;
        let upper = self.step.after(lower)?;
        let name = self.names.next(lower)?;
        self.end = upper;
        Some(Coming { name, lower, upper })
    }

    /// Returns where the last partition ends.
    pub(super) const fn end(&self) -> Bound {
        self.end
    }
}

fn step(known: &[(&str, Bound, Bound)]) -> Result<Step, Irregular> {
    let months = known.iter().map(|(_, lower, upper)| months(*lower, *upper)).collect::<Option<Vec<_>>>();
    let spans = known.iter().map(|(_, lower, upper)| span(*lower, *upper)).collect::<Option<Vec<_>>>();
    let odd = |steps: &[Step]| steps.iter().position(|step| Some(step) != steps.first());
    let candidates: Vec<_> = months.into_iter().chain(spans).collect();
    if let Some(steps) = candidates.iter().find(|steps| odd(steps).is_none()) {
        return steps.first().copied().ok_or(Irregular::Few);
    }
    let at = candidates.first().and_then(|steps| odd(steps)).unwrap_or_default();
    Err(Irregular::Length(known.get(at).map_or_else(String::new, |(name, ..)| (*name).to_owned())))
}

/// Returns the whole months, when both are the first moment of one.
fn months(lower: Bound, upper: Bound) -> Option<Step> {
    let (Bound::Time(lower), Bound::Time(upper)) = (lower, upper) else { return None };
    let is_first = |time: DateTime| time == time.first_of_month().start_of_day();
    let months = |time: DateTime| i32::from(time.year()) * 12 + i32::from(time.month());
    let between = months(upper) - months(lower);
    (is_first(lower) && is_first(upper) && between > 0).then_some(Step::Months(between))
}

fn span(lower: Bound, upper: Bound) -> Option<Step> {
    match (lower, upper) {
        (Bound::Number(lower), Bound::Number(upper)) => upper.checked_sub(lower).map(Step::Number),
        (Bound::Time(lower), Bound::Time(upper)) => Some(Step::Time(upper.duration_since(lower))),
        _ => None,
    }
}

impl Step {
    fn after(self, bound: Bound) -> Option<Bound> {
        match (self, bound) {
            (Self::Number(step), Bound::Number(number)) => number.checked_add(step).map(Bound::Number),
            (Self::Months(months), Bound::Time(time)) => {
                time.checked_add(Span::new().try_months(months).ok()?).ok().map(Bound::Time)
            }
            (Self::Time(span), Bound::Time(time)) => time.checked_add(span).ok().map(Bound::Time),
            _ => None,
        }
    }
}

impl<'n> Names<'n> {
    fn of(known: &[(&'n str, Bound, Bound)], step: Step) -> Option<Self> {
        match step {
            Step::Number(step) => Self::numbers(known, step),
            Step::Months(_) | Step::Time(_) => {
                LABELS.into_iter().find_map(|format| Self::labels(known, format))
            }
        }
    }

    fn labels(known: &[(&'n str, Bound, Bound)], format: &'static str) -> Option<Self> {
        let prefix = |(name, lower, _): &(&'n str, Bound, Bound)| name.strip_suffix(&label(*lower, format)?);
        let first = prefix(known.first()?)?;
        known.iter().all(|one| prefix(one) == Some(first)).then_some(Self::Label { prefix: first, format })
    }

    fn numbers(known: &[(&'n str, Bound, Bound)], step: i64) -> Option<Self> {
        let mut found = Vec::new();
        for (name, ..) in known {
            let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
            let digits = name.strip_prefix(prefix)?;
            found.push((prefix, digits, digits.parse::<i64>().ok()?));
        }
        let (prefix, first, _) = *found.first()?;
        let by = found.get(1)?.2.checked_sub(found.first()?.2)?;
        let last = found.last()?.2;
        let grows = found.iter().zip(found.iter().skip(1)).all(|(a, b)| b.2.checked_sub(a.2) == Some(by));
        let is_one = grows && (by == 1 || by == step) && found.iter().all(|one| one.0 == prefix);
        let padded = found.iter().any(|one| one.1.starts_with('0') && one.1.len() > 1);
        let even = found.iter().all(|one| one.1.len() == first.len());
        (is_one && (even || !padded)).then_some(Self::Number {
            prefix,
            last,
            by,
            digits: if padded { first.len() } else { 0 },
        })
    }

    fn next(&mut self, lower: Bound) -> Option<String> {
        match self {
            Self::Label { prefix, format } => Some(format!("{prefix}{}", label(lower, format)?)),
            Self::Number { prefix, last, by, digits } => {
                *last = last.checked_add(*by)?;
                Some(format!("{prefix}{:0digits$}", last, digits = *digits))
            }
        }
    }
}

fn label(lower: Bound, format: &str) -> Option<String> {
    match lower {
        Bound::Time(time) => Some(time.strftime(format).to_string()),
        Bound::Number(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::bounds::KeyType;
    use super::*;

    /// Names, and where they begin and end.
    type Partitions = &'static [(&'static str, &'static str, &'static str)];

    /// Returns the next two partitions, or why there are none.
    fn next(partitions: Partitions) -> Result<Vec<String>, Irregular> {
        let read = |(name, lower, upper): &(&'static str, &str, &str)| {
            let key = if lower.contains('-') { KeyType::Local } else { KeyType::Number };
            let range = Range::read(&format!("FOR VALUES FROM ({lower}) TO ({upper})"), key).unwrap();
            Named { name, range }
        };
        let named: Vec<_> = partitions.iter().map(read).collect();
        let mut pattern = Pattern::of(&named)?;
        let shown =
            |bound: Bound| bound.literal(Some(KeyType::Local)).replace(" 00:00:00", "").replace('\'', "");
        let mut next =
            || pattern.next().map(|it| format!("{} {} {}", it.name, shown(it.lower), shown(it.upper)));
        Ok([next(), next()].into_iter().flatten().collect())
    }

    #[test]
    fn a_regular_pattern_continues() {
        let cases: [(Partitions, [&str; 2]); 9] = [
            (
                &[("o_20260131", "2026-01-31", "2026-02-01"), ("o_20260130", "2026-01-30", "2026-01-31")],
                ["o_20260201 2026-02-01 2026-02-02", "o_20260202 2026-02-02 2026-02-03"],
            ),
            (
                &[("o_p2026_11", "2026-11-01", "2026-12-01"), ("o_p2026_12", "2026-12-01", "2027-01-01")],
                ["o_p2027_01 2027-01-01 2027-02-01", "o_p2027_02 2027-02-01 2027-03-01"],
            ),
            // Two months of 31 days are months.
            (
                &[("o202607", "2026-07-01", "2026-08-01"), ("o202608", "2026-08-01", "2026-09-01")],
                ["o202609 2026-09-01 2026-10-01", "o202610 2026-10-01 2026-11-01"],
            ),
            (
                &[("o_2026w01", "2025-12-29", "2026-01-05"), ("o_2026w02", "2026-01-05", "2026-01-12")],
                ["o_2026w03 2026-01-12 2026-01-19", "o_2026w04 2026-01-19 2026-01-26"],
            ),
            (
                &[
                    ("o_20260131_22", "2026-01-31 22:00:00", "2026-01-31 23:00:00"),
                    ("o_20260131_23", "2026-01-31 23:00:00", "2026-02-01 00:00:00"),
                ],
                [
                    "o_20260201_00 2026-02-01 2026-02-01 01:00:00",
                    "o_20260201_01 2026-02-01 01:00:00 2026-02-01 02:00:00",
                ],
            ),
            (&[("o_1", "1", "1001"), ("o_2", "1001", "2001")], ["o_3 2001 3001", "o_4 3001 4001"]),
            (&[("o_p0", "0", "500"), ("o_p500", "500", "1000")], ["o_p1000 1000 1500", "o_p1500 1500 2000"]),
            (&[("o_08", "0", "5"), ("o_09", "5", "10")], ["o_10 10 15", "o_11 15 20"]),
            // What is older than everything is no part of the pattern.
            (
                &[("o_old", "MINVALUE", "0"), ("o_1", "0", "5"), ("o_2", "5", "10")],
                ["o_3 10 15", "o_4 15 20"],
            ),
        ];
        for (partitions, expected) in cases {
            assert_eq!(next(partitions).unwrap(), expected, "{partitions:?}");
        }
    }

    #[test]
    fn nothing_is_guessed() {
        let name = str::to_owned;
        let cases: [(Partitions, Irregular); 8] = [
            (&[("o_1", "0", "5")], Irregular::Few),
            (&[("o_1", "0", "5"), ("o_2", "5", "MAXVALUE")], Irregular::Endless(name("o_2"))),
            (&[("o_1", "0", "5"), ("o_2", "6", "11")], Irregular::Gap(name("o_1"), name("o_2"))),
            (&[("o_1", "0", "5"), ("o_2", "5", "11")], Irregular::Length(name("o_2"))),
            (&[("o_a", "0", "5"), ("o_b", "5", "10")], Irregular::Names),
            (&[("o_1", "0", "5"), ("o_7", "5", "10"), ("o_8", "10", "15")], Irregular::Names),
            (
                &[("o_20260131", "2026-01-31", "2026-02-01"), ("o_next", "2026-02-01", "2026-02-02")],
                Irregular::Names,
            ),
            // Midnight elsewhere, where the clock was changed.
            (
                &[
                    ("o_20260328", "2026-03-27 23:00:00", "2026-03-28 23:00:00"),
                    ("o_20260329", "2026-03-28 23:00:00", "2026-03-29 22:00:00"),
                ],
                Irregular::Length(name("o_20260329")),
            ),
        ];
        for (partitions, expected) in cases {
            assert_eq!(next(partitions), Err(expected), "{partitions:?}");
        }
    }
}
