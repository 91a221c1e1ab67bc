//! Summary of a verification.

use indicatif::HumanCount;
use serde_json::{Value, json};

use super::slot::SlotPosition;
use crate::verification::Tally;

/// Text at the end.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) tally: Tally,
    /// True if rows were compared with the last records of their keys.
    pub(super) latest: bool,
    /// Source of the order, or why it was not checked.
    pub(super) order: Result<String, String>,
    pub(super) slot: SlotPosition,
    /// True if each row and each record was looked at.
    pub(super) whole: bool,
    /// Further notes.
    pub(super) notes: Vec<String>,
    /// The same of an outbox among the tables.
    pub(super) outbox: Option<Box<Self>>,
}
impl Summary {
    /// Returns whether each row's record is as it should be.
    pub(super) fn is_clean(&self) -> bool {
        self.tally.is_clean() && self.outbox.as_ref().is_none_or(|outbox| outbox.is_clean())
    }

    pub(super) fn object(&self) -> Value {
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

    pub(super) fn lines(&self) -> String {
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

    /// Returns the line of the slot, whose position matters to rows that are not in Kafka.
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

    /// Does the same as [`Self::counts`] for last records.
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

    /// Returns key, words, and number; none is not counted. An unexceptional count of zero is omitted.
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

    fn summary(tally: Tally) -> Summary {
        Summary {
            tally,
            order: Err("no record has a position".to_owned()),
            slot: SlotPosition::Absent,
            latest: false,
            whole: false,
            notes: vec!["something".to_owned()],
            outbox: None,
        }
    }

    #[test]
    fn the_slot_is_reported_when_a_row_may_be_unsent() {
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
            "order: not checked: no record has a position\n",
            "note: something\n",
        ] {
            assert!(lines.contains(expected), "{expected}: {lines}");
        }
        assert!(lines.ends_with("is there as it should be\n"));
        let object = summary.object();
        assert!(object["counts"]["out_of_order"].is_null() && object["answer"] == "yes", "{object}");
    }
}
