//! Reports of commands that change the tables.

use std::collections::BTreeMap;

use serde::Serialize;

use super::changed::Changed;
use crate::cli::change::inbox::parked::Parked;
use crate::cli::change::inbox::reason::Reason;
use crate::cli::print;
use crate::cli::shell::text::clean;
use crate::error::Exit;

/// Events of a text; JSON has all.
const SHOWN_MAX: usize = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Action {
    Release,
    Retry,
    Skip,
    Forget,
}

impl Action {
    const fn verb(self, executed: bool) -> &'static str {
        match (self, executed) {
            (Self::Release, true) => "released",
            (Self::Release, false) => "would release",
            (Self::Retry, true) => "made due",
            (Self::Retry, false) => "would make due",
            (Self::Skip, true) => "skipped",
            (Self::Skip, false) => "would skip",
            (Self::Forget, true) => "forgot",
            (Self::Forget, false) => "would forget",
        }
    }

    /// Returns whether a running consumer must take the partition again to notice it.
    const fn is_noticed_late(self) -> bool {
        !matches!(self, Self::Forget)
    }
}

/// Selected events that are not changed, by the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Unchanged {
    pub(super) reason: Reason,
    pub(super) events: u64,
    pub(super) fix: &'static str,
}

/// Result of a command that changes something, or of its dry run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Report {
    pub(super) action: Action,
    pub(super) consumer: String,
    pub(super) executed: bool,
    pub(super) changed: Vec<Changed>,
    pub(super) unchanged: Vec<Unchanged>,
}

impl Report {
    pub(super) fn new(action: Action, consumer: &str, executed: bool) -> Self {
        Self { action, consumer: consumer.to_owned(), executed, changed: Vec::new(), unchanged: Vec::new() }
    }

    /// Counts events that the action does not change.
    pub(super) fn add_unchanged<'e>(
        &mut self,
        events: impl Iterator<Item = &'e Parked>,
        fix: fn(Reason) -> &'static str,
    ) {
        let mut counts: BTreeMap<Reason, u64> = BTreeMap::new();
        for event in events {
            let count = counts.entry(event.reason()).or_default();
            *count = count.saturating_add(1);
        }
        let unchanged =
            counts.into_iter().map(|(reason, events)| Unchanged { reason, events, fix: fix(reason) });
        self.unchanged.extend(unchanged);
    }

    /// Prints the report. A requested change that is not possible is no success.
    pub(super) fn print(&self, as_json: bool) -> Exit {
        if as_json {
            print(&format!("{}\n", serde_json::to_value(self).unwrap_or_default()));
        } else {
            print(&self.text());
        }
        if self.changed.is_empty() { Exit::Failed } else { Exit::Ok }
    }

    fn text(&self) -> String {
        let count = self.changed.len();
        let events = if count == 1 { "event" } else { "events" };
        let verb = self.action.verb(self.executed && count > 0);
        let mut text = format!("{}: {verb} {count} {events}\n", clean(&self.consumer));
        text.extend(self.changed.iter().take(SHOWN_MAX).map(Changed::line));
        if let Some(more @ 1..) = count.checked_sub(SHOWN_MAX) {
            text.push_str(&format!("  and {more} more (--json lists all)\n"));
        }
        for Unchanged { reason, events, fix } in &self.unchanged {
            text.push_str(&format!("unchanged {events}, {}: {fix}\n", reason.name()));
        }
        text.push_str(match (count, self.executed) {
            (0, _) => "",
            (_, false) => "nothing was changed: run again with --yes\n",
            (_, true) if self.action.is_noticed_late() => "a running consumer notices it within about 10 s\n",
            (_, true) => "",
        });
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::change::inbox::parked::tests::parked;

    #[test]
    fn a_dry_run_names_the_events_and_what_executes_it() {
        let mut report = Report::new(Action::Retry, "payments", false);
        report.changed.push(Changed::event(&parked(7)));
        report.add_unchanged([Parked { is_dead: true, ..parked(8) }].iter(), |_| "outboxd inbox release");
        assert_eq!(
            report.text(),
            "payments: would make due 1 event\n  t:0:7  key k\nunchanged 1, dead letter: outboxd inbox release\n\
             nothing was changed: run again with --yes\n"
        );
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(
            (&json["changed"][0]["at"], &json["unchanged"][0]["reason"]),
            (&"t:0:7".into(), &"dead_letter".into())
        );
    }

    #[test]
    fn many_events_are_counted() {
        let mut report = Report::new(Action::Release, "payments", true);
        report.changed.extend((0..25).map(|offset| Changed::event(&parked(offset))));
        assert!(
            report.text().contains("  and 5 more (--json lists all)\na running consumer"),
            "{}",
            report.text()
        );
    }
}
