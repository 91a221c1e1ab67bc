use std::collections::HashMap;
use std::io::{self, Write as _};

use indicatif::HumanCount;
use serde_json::{Value, json};

use super::slot::SlotPosition;
use crate::cli::progress::Progress;
use crate::verification::{Finding, Problem, RowName, Tally};
use crate::wal::Oid;

/// How many findings are printed for people.
const LISTED_MAX: u64 = 100;

/// What stands in the place of numbers.
#[derive(Debug)]
pub(super) struct Names {
    /// Of the captured tables, in the order of their numbers.
    pub(super) tables: Vec<String>,
    /// Of the tables that rows may lie in.
    pub(super) places: HashMap<Oid, String>,
    /// Of the topics, in the order of their numbers.
    pub(super) topics: Vec<String>,
    /// Of fields, by their digests.
    pub(super) fields: HashMap<u32, String>,
}

/// Prints findings as they come: they are not kept.
#[derive(Debug)]
pub(super) struct Report {
    names: Names,
    json: bool,
    told: u64,
    progress: Progress,
}

/// What is said at the end.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) tally: Tally,
    /// Whether rows were compared with the last records of their keys.
    pub(super) latest: bool,
    /// What the order was checked by, or why it was not.
    pub(super) order: Result<String, String>,
    pub(super) slot: SlotPosition,
    /// Whether each row and each record was looked at.
    pub(super) whole: bool,
    /// What else should be known.
    pub(super) notes: Vec<String>,
    /// The same of an outbox among the tables.
    pub(super) outbox: Option<Box<Self>>,
}

impl Report {
    pub(super) fn begin(names: Names, json: bool, progress: Progress) -> Self {
        let report = Self { names, json, told: 0, progress };
        if json {
            report.print("{\"findings\": [");
        }
        report
    }

    /// Prints a finding.
    pub(super) fn tell(&mut self, finding: &Finding) {
        let first = self.told == 0;
        self.told = self.told.saturating_add(1);
        if self.json {
            let separator = if first { "\n" } else { ",\n" };
            self.print(&format!("{separator}{}", self.names.object(finding)));
        } else if self.told <= LISTED_MAX {
            self.print(&format!("{}\n", self.names.line(finding)));
        }
    }

    /// What stands in the place of numbers from now on.
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
        let more = self.told.saturating_sub(LISTED_MAX);
        if more > 0 {
            self.print(&format!("and {} more: --json lists all\n", HumanCount(more)));
        }
        if self.told > 0 {
            self.print("\n");
        }
        self.print(&summary.lines());
    }

    /// A reader who has left is no reason to fail.
    fn print(&self, text: &str) {
        self.progress.above(|| {
            let mut out = io::stdout().lock();
            drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
        });
    }
}

impl Names {
    /// Of nothing.
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

    /// Which row it is.
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

    /// The table that the row lies in: there its `ctid` is right.
    fn table(&self, row: &RowName) -> &str {
        let captured = || self.tables.get(usize::try_from(row.table).ok()?);
        self.places.get(&Oid(row.lies_in)).or_else(captured).map_or("", String::as_str)
    }

    fn topic(&self, number: u32) -> &str {
        usize::try_from(number).ok().and_then(|number| self.topics.get(number)).map_or("", String::as_str)
    }
}

/// An id cannot move the cursor or begin a line of its own.
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
        Problem::Missing { perhaps_expired: false } | Problem::OtherTopic | Problem::Differs { .. } => None,
        Problem::Gone => Some("the last record of its key is a delete".to_owned()),
        Problem::NotDeleted => Some("the last record of its key is no delete".to_owned()),
        Problem::Unreadable => Some("the last record of its key cannot be read".to_owned()),
        Problem::Missing { perhaps_expired: true } => Some(
            "its partition has lost its oldest records, and no column says how old the row is \
             (--time-column)"
                .to_owned(),
        ),
        Problem::Unsent => Some("it may not have been sent yet".to_owned()),
        Problem::Changed { parts } => Some(format!("different: {parts}")),
        Problem::Repeated { times } => Some(format!("{times} times")),
        Problem::OutOfOrder => Some("a later record is before it".to_owned()),
        Problem::CannotBeSent { reason } => Some(reason.clone()),
    }
}

impl Summary {
    /// Whether each row's record is there as it should be.
    pub(super) fn is_clean(&self) -> bool {
        self.tally.is_clean() && self.outbox.as_ref().is_none_or(|outbox| outbox.is_clean())
    }

    fn object(&self) -> Value {
        let slot = match self.slot {
            SlotPosition::Passed => json!({"passed": true}),
            SlotPosition::Behind { confirmed, rows } => {
                json!({"passed": false, "confirmed": confirmed.to_string(), "rows": rows.to_string()})
            }
            SlotPosition::Absent => json!({"passed": false, "confirmed": null}),
        };
        let mut object = json!({
            "answer": if self.is_clean() { "yes" } else { "no" },
            "counts": self.counts_object(),
            "order": self.order_object(),
            "slot": slot,
            "notes": self.all_notes().collect::<Vec<_>>(),
        });
        if let (Some(outbox), Some(object)) = (&self.outbox, object.as_object_mut()) {
            let of_outbox = json!({"counts": outbox.counts_object(), "order": outbox.order_object()});
            object.insert("outbox".to_owned(), of_outbox);
        }
        object
    }

    fn counts_object(&self) -> Value {
        let counts = self.counts().into_iter();
        counts.map(|(key, _, count)| (key.to_owned(), count.map_or(Value::Null, Value::from))).collect()
    }

    fn order_object(&self) -> Value {
        let (by, reason) = (self.order.as_ref().ok(), self.order.as_ref().err());
        json!({"checked": self.order.is_ok(), "by": by, "reason": reason})
    }

    fn all_notes(&self) -> impl Iterator<Item = &String> {
        self.notes.iter().chain(self.outbox.iter().flat_map(|outbox| &outbox.notes))
    }

    fn lines(&self) -> String {
        let mut text = self.count_lines();
        if let Some(outbox) = &self.outbox {
            text.push_str(&format!("outbox (rows that the EventRouter takes):\n{}", outbox.count_lines()));
        }
        text.push_str(&self.slot_line());
        for note in self.all_notes() {
            text.push_str(&format!("note: {note}\n"));
        }
        text.push_str(if self.is_clean() {
            "yes: the record of each of these rows is there as it should be\n"
        } else {
            "no: not every record is there as it should be\n"
        });
        text
    }

    fn count_lines(&self) -> String {
        let mut text = String::new();
        for (_, label, count) in self.counts() {
            match count {
                Some(count) => text.push_str(&format!("{:>15}  {label}\n", HumanCount(count).to_string())),
                None => text.push_str(&format!("{:>15}  {label}\n", "not counted")),
            }
        }
        match &self.order {
            Ok(by) => text.push_str(&format!("order: checked by {by}\n")),
            Err(reason) => text.push_str(&format!("order: not checked: {reason}\n")),
        }
        text
    }

    /// Where the slot is matters to rows that nobody has seen in Kafka.
    fn slot_line(&self) -> String {
        let of_outbox = self.outbox.as_ref().map_or(0, |outbox| outbox.tally.unsent);
        match self.slot {
            _ if self.tally.unsent == 0 && of_outbox == 0 => String::new(),
            SlotPosition::Passed => String::new(),
            SlotPosition::Behind { confirmed, rows } => format!(
                "slot: it is at {confirmed}, the rows were read at {rows}: what is missing may not have been sent yet. Start \
                 the relay, or wait longer (--wait)\n"
            ),
            SlotPosition::Absent => {
                "slot: there is none: what is missing may not have been sent yet\n".to_owned()
            }
        }
    }

    /// As [`Self::counts`], of last records.
    fn latest_counts(&self) -> Vec<(&'static str, &'static str, Option<u64>)> {
        let Tally { rows, records, sent, missing, unsent, changed, gone, not_deleted, .. } = self.tally;
        let Tally {
            repeated,
            out_of_order,
            cannot_be_sent,
            altered,
            unavailable,
            moved_on,
            not_compared,
            ..
        } = self.tally;
        vec![
            ("rows", "rows", Some(rows)),
            ("records", "records", Some(records)),
            ("sent", "rows that the last record of their key has", Some(sent)),
            ("missing", "rows without a record: missing", Some(missing)),
            (
                "missing_or_unsent",
                "rows whose last record is missing or another one, or not sent yet",
                Some(unsent),
            ),
            ("changed", "rows whose last record has other values: changed", Some(changed)),
            ("deleted_in_topic", "rows whose last record is a delete", Some(gone)),
            ("not_deleted", "keys whose last record is no delete, and that have no row", Some(not_deleted)),
            ("repeated", "keys that have a record more than once: repeated", Some(repeated)),
            (
                "out_of_order",
                "records that come too late: out of order",
                self.order.is_ok().then_some(out_of_order),
            ),
            ("cannot_be_sent", "rows that make no record", Some(cannot_be_sent)),
            ("altered", "rows whose record is older than their table's columns", Some(altered)),
            ("unavailable", "rows with values that no record could have (TOAST)", Some(unavailable)),
            (
                "not_compared",
                "rows with other values than their record, as updates are not sent",
                Some(not_compared),
            ),
            ("moved_on", "rows that were changed while they were looked at", Some(moved_on)),
        ]
    }

    /// Key, words, and how many; none is not counted. A count of zero that nobody expects is left out.
    fn counts(&self) -> Vec<(&'static str, &'static str, Option<u64>)> {
        if self.latest {
            return self.latest_counts();
        }
        let Tally { rows, records, sent, missing, unsent, changed, other_topic, .. } = self.tally;
        let Tally { repeated, out_of_order, cannot_be_sent, dead_letters, .. } = self.tally;
        let Tally { expired, compacted, without_row, .. } = self.tally;
        vec![
            ("rows", "rows", Some(rows)),
            ("records", "records", Some(records)),
            ("sent", "rows whose record is there with its bytes", Some(sent)),
            ("missing", "rows without a record: missing", Some(missing)),
            ("missing_or_unsent", "rows without a record: missing, or not sent yet", Some(unsent)),
            ("changed", "records with a row's id and other bytes: changed", Some(changed)),
            ("in_another_topic", "rows whose record is in another topic", Some(other_topic)),
            ("repeated", "rows whose record is there more than once: repeated", Some(repeated)),
            (
                "out_of_order",
                "rows whose record comes too late: out of order",
                self.order.is_ok().then_some(out_of_order),
            ),
            ("cannot_be_sent", "rows that make no record", Some(cannot_be_sent)),
            ("dead_letters", "rows that are in the dead-letter topic", Some(dead_letters)),
            ("expired", "rows older than what their partition still has", Some(expired)),
            ("compacted", "rows whose record may be compacted away", Some(compacted)),
            ("without_row", "records without a row", self.whole.then_some(without_row)),
        ]
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
        let line = names().line(&finding(Problem::Missing { perhaps_expired: false }, 8, None));
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

    fn summary(tally: Tally) -> Summary {
        Summary {
            tally,
            order: Err("nothing tells it".to_owned()),
            slot: SlotPosition::Absent,
            latest: false,
            whole: false,
            notes: vec!["something".to_owned()],
            outbox: None,
        }
    }

    #[test]
    fn the_slot_is_told_when_a_row_may_be_unsent() {
        let unsent = |rows| Tally { unsent: rows, ..Tally::default() };
        let with_outbox =
            |rows| Summary { outbox: Some(Box::new(summary(unsent(rows)))), ..summary(unsent(0)) };
        let cases = [
            (summary(unsent(0)), false),
            (summary(unsent(1)), true),
            (with_outbox(0), false),
            (with_outbox(1), true),
        ];
        for (summary, told) in cases {
            let lines = summary.lines();
            assert_eq!(lines.contains("may not have been sent yet"), told, "{lines}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_claimed() {
        let summary = summary(Tally { rows: 1_234, sent: 1_234, ..Tally::default() });
        let lines = summary.lines();
        for expected in [
            "          1,234  rows\n",
            "    not counted  rows whose record comes too late",
            "    not counted  records without a row",
            "order: not checked: nothing tells it\n",
            "note: something\n",
        ] {
            assert!(lines.contains(expected), "{expected}: {lines}");
        }
        assert!(lines.ends_with("is there as it should be\n"));
        let object = summary.object();
        assert!(object["counts"]["out_of_order"].is_null() && object["answer"] == "yes", "{object}");
    }
}
