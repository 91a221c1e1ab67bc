//! Printed findings.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write as _};

use indicatif::HumanCount;
use serde_json::{Value, json};

use super::summary::Summary;
use crate::cli::shell::progress::Progress;
use crate::verification::{Deletion, Finding, Problem, RowName, Severity};
use crate::wal::Oid;

/// Maximum number of findings that are printed as text.
const LISTED_MAX: usize = 100;

/// Names by number.
#[derive(Debug)]
pub(super) struct Names {
    /// Names of the captured tables, in the order of their numbers.
    pub(super) tables: Vec<String>,
    /// Names of the tables that rows may be in.
    pub(super) places: HashMap<Oid, String>,
    /// Names of the topics, in the order of their numbers.
    pub(super) topics: Vec<String>,
    /// Names of fields, by their digests.
    pub(super) fields: HashMap<u32, String>,
}

/// Printer of findings: as JSON in their order, as text the worst first.
#[derive(Debug)]
pub(super) struct Report {
    names: Names,
    json: bool,
    told: u64,
    /// Their lines, at most [`LISTED_MAX`] of each severity.
    lines: BTreeMap<Severity, Vec<String>>,
    progress: Progress,
}

impl Report {
    pub(super) fn begin(names: Names, json: bool, progress: Progress) -> Self {
        let report = Self { names, json, told: 0, lines: BTreeMap::new(), progress };
        if json {
            report.print("{\"findings\": [");
        }
        report
    }

    /// Prints a finding, or stores its line.
    pub(super) fn report(&mut self, finding: &Finding) {
        let first = self.told == 0;
        self.told = self.told.saturating_add(1);
        if self.json {
            let separator = if first { "\n" } else { ",\n" };
            self.print(&format!("{separator}{}", self.names.object(finding)));
            return;
        }
        let lines = self.lines.entry(finding.problem.severity()).or_default();
        if lines.len() < LISTED_MAX {
            lines.push(self.names.line(finding));
        }
    }

    /// Sets the names of numbers from now on.
    pub(super) fn name_by(&mut self, names: Names) {
        self.names = names;
    }

    pub(super) fn end(self, summary: &Summary) {
        self.progress.end();
        if self.json {
            let rest = summary.object().to_string();
            // The rest of one object.
            return self.print(&format!("],\n{}\n", rest.strip_prefix('{').unwrap_or_default()));
        }
        let listed: Vec<_> = self.lines.values().flatten().take(LISTED_MAX).collect();
        for line in &listed {
            self.print(&format!("{line}\n"));
        }
        let more = self.told.saturating_sub(u64::try_from(listed.len()).unwrap_or(u64::MAX));
        if more > 0 {
            self.print(&format!("and {} more: --json lists all\n", HumanCount(more)));
        }
        if self.told > 0 {
            self.print("\n");
        }
        self.print(&summary.lines());
    }

    /// Prints to stdout. A reader that has left is no reason to fail.
    fn print(&self, text: &str) {
        self.progress.above(|| {
            let mut out = io::stdout().lock();
            drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
        });
    }
}

impl Names {
    /// Creates it without names.
    pub(super) fn none() -> Self {
        let (tables, topics) = (Vec::new(), Vec::new());
        Self { tables, places: HashMap::new(), topics, fields: HashMap::new() }
    }

    fn line(&self, finding: &Finding) -> String {
        let Finding { problem, row, .. } = finding;
        let places: Vec<_> = finding
            .places
            .iter()
            .map(|place| {
                let topic = self.topic(place.topic.0);
                format!("{topic}/{} at {}", place.partition, place.offset)
            })
            .collect();
        let mut line = format!("{}: {}", problem.name(), self.named(row.as_ref()));
        if let Some(topic) = finding.topic {
            line.push_str(&format!(", topic {}", self.topic(topic.0)));
        }
        if let Some(detail) = self.detail(problem) {
            line.push_str(&format!(": {detail}"));
        }
        if !places.is_empty() {
            line.push_str(&format!(" ({})", places.join(", ")));
        }
        line
    }

    fn object(&self, finding: &Finding) -> Value {
        let Finding { problem, row, topic, places } = finding;
        let places: Vec<_> = places
            .iter()
            .map(|place| {
                json!({
                    "topic": self.topic(place.topic.0),
                    "partition": place.partition,
                    "offset": place.offset,
                })
            })
            .collect();
        json!({
            "problem": problem.name(),
            "id": row.as_ref().and_then(|row| row.id.as_deref()),
            "table": row.as_ref().and_then(|row| self.tables.get(usize::try_from(row.table).ok()?)),
            "stored_in": row.as_ref().and_then(|row| self.places.get(&Oid(row.lies_in))),
            "ctid": row.as_ref().map(ctid),
            "topic": topic.map(|topic| self.topic(topic.0)),
            "detail": self.detail(problem),
            "records": places,
        })
    }

    /// Returns the name of a row.
    fn named(&self, row: Option<&RowName>) -> String {
        let Some(row) = row else { return "a row that is not there".to_owned() };
        let id = match row.id.as_deref() {
            None => "without an id".to_owned(),
            Some(key) if key.starts_with('{') => format!("key {}", printable(key)),
            Some(id) => format!("id {}", printable(id)),
        };
        format!("{id}, table {}, ctid {}", self.table(row), ctid(row))
    }

    fn detail(&self, problem: &Problem) -> Option<String> {
        let Problem::Differs { fields } = problem else { return detail(problem) };
        let names: Vec<_> =
            fields.iter().filter_map(|field| self.fields.get(field)).map(|name| printable(name)).collect();
        Some(format!("different: {}", names.join(", ")))
    }

    /// Returns the table that contains the row: its `ctid` is valid there.
    fn table(&self, row: &RowName) -> &str {
        let captured = || self.tables.get(usize::try_from(row.table).ok()?);
        self.places.get(&Oid(row.lies_in)).or_else(captured).map_or("", String::as_str)
    }

    fn topic(&self, number: u32) -> &str {
        usize::try_from(number).ok().and_then(|number| self.topics.get(number)).map_or("", String::as_str)
    }
}

/// Escapes control characters, so that an id cannot move the cursor or begin a line of its own.
fn printable(id: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    id.chars().map(escaped).collect()
}

fn ctid(row: &RowName) -> String {
    let (block, number) = row.place;
    format!("({block},{number})")
}

fn detail(problem: &Problem) -> Option<String> {
    match problem {
        Problem::Missing { perhaps: None } | Problem::OtherTopic | Problem::Differs { .. } => None,
        Problem::Gone => Some("the last record of its key is a delete".to_owned()),
        Problem::NotDeleted => Some("the last record of its key is no delete".to_owned()),
        Problem::Unreadable => Some("the last record of its key cannot be read".to_owned()),
        Problem::Missing { perhaps: Some(Deletion::Compacted) } => Some(
            "its topic is compacted, and without --order-by it is unknown whether it has a later record of its key".to_owned(),
        ),
        Problem::Missing { perhaps: Some(Deletion::Expired) } => Some(
            "its partition has lost its oldest records, and no column has the age of \
             the row (--time-column)"
                .to_owned(),
        ),
        Problem::Unsent => Some("it may not have been sent yet".to_owned()),
        Problem::Changed { parts } => Some(format!("different: {parts}")),
        Problem::Repeated { times } => Some(format!("{times} times")),
        Problem::OutOfOrder => Some("a later record is before it".to_owned()),
        Problem::CannotBeSent { reason } => Some(reason.clone()),
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::verification::{Place, TopicNumber};

    fn names() -> Names {
        Names {
            tables: vec!["public.outbox".to_owned()],
            places: [(Oid(7), "public.outbox_p1".to_owned())].into(),
            topics: vec!["orders".to_owned()],
            fields: [(5, "name".to_owned())].into(),
        }
    }

    fn finding(problem: Problem, lies_in: u32, id: Option<&str>) -> Finding {
        let row = RowName { table: 0, lies_in, place: (3, 4), id: id.map(str::to_owned) };
        let places = vec![Place { topic: TopicNumber(0), partition: 1, offset: 5 }];
        Finding { problem, row: Some(row), topic: Some(TopicNumber(0)), places }
    }

    #[test]
    fn a_finding_is_one_line() {
        let line = names().line(&finding(Problem::Repeated { times: 2 }, 7, Some("a\n\u{1b}b")));
        let expected = "repeated: id a\\n\\u{1b}b, table public.outbox_p1, ctid (3,4), topic orders: 2 times (orders/1 at 5)";
        assert_eq!(line, expected);
        let line = names().line(&finding(Problem::Missing { perhaps: None }, 8, None));
        assert_eq!(
            line,
            "missing: without an id, table public.outbox, ctid (3,4), topic orders (orders/1 at 5)"
        );
        let line = names().line(&finding(Problem::Differs { fields: vec![5] }, 8, Some("{\"id\":1}")));
        let expected = "changed: key {\"id\":1}, table public.outbox, ctid (3,4), topic orders: different: name (orders/1 at 5)";
        assert_eq!(line, expected);
        let line = names().line(&Finding { row: None, ..finding(Problem::NotDeleted, 8, None) });
        let expected = "not_deleted: a row that is not there, topic orders: the last record of its key is no delete (orders/1 at 5)";
        assert_eq!(line, expected);
    }
}
