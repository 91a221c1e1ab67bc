//! Reports of `replay` and `discard`.

use std::collections::BTreeMap;

use indicatif::HumanCount;
use serde_json::{Value, json};

use super::plan::Hold;
use crate::cli::shell::text::clean;
use crate::error::Exit;

/// Action of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Replay,
    Discard,
}

/// Result of a run, or its preview.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) action: Action,
    pub(super) executed: bool,
    pub(super) interrupted: bool,
    /// Number of dead letters by destination.
    pub(super) settled: BTreeMap<String, u64>,
    /// Held-back dead letters by their numbers, so that none counts twice.
    pub(super) held: BTreeMap<usize, Hold>,
    pub(super) overtaking: u64,
}

impl Report {
    pub(super) fn new(action: Action, executed: bool) -> Self {
        let (settled, held) = Default::default();
        Self { action, executed, interrupted: false, settled, held, overtaking: 0 }
    }

    pub(super) fn count(&mut self, topic: &str) {
        let count = self.settled.entry(topic.to_owned()).or_default();
        *count = count.saturating_add(1);
    }

    pub(super) fn total(&self) -> u64 {
        self.settled.values().sum()
    }

    pub(super) fn exit(&self) -> Exit {
        if self.interrupted {
            Exit::Interrupted
        } else if self.held.is_empty() {
            Exit::Ok
        } else {
            Exit::Failed
        }
    }

    pub(super) fn text(&self, topic: &str) -> String {
        let total = self.total();
        let letters = if total == 1 { "dead letter" } else { "dead letters" };
        let did = match (self.action, self.executed) {
            (Action::Replay, true) => "sent",
            (Action::Replay, false) => "would send",
            (Action::Discard, true) => "discarded",
            (Action::Discard, false) => "would discard",
        };
        let mut text = format!("{topic}: {did} {} {letters}\n", HumanCount(total));
        if self.action == Action::Replay {
            for (to, count) in &self.settled {
                text.push_str(&format!("  {} to {}\n", HumanCount(*count), clean(to)));
            }
        }
        if self.overtaking > 0 {
            text.push_str(&format!(
                "  {} of them before an earlier dead letter of their key that the filters exclude\n",
                HumanCount(self.overtaking)
            ));
        }
        for (hold, count) in self.holds() {
            text.push_str(&format!("held back {}: {}\n", HumanCount(count), clean(&hold.to_string())));
        }
        text.push_str(match (self.interrupted, self.executed, self.action) {
            (true, ..) => "interrupted: the rest is still open\n",
            (false, false, Action::Replay) => "nothing was sent: --execute sends them\n",
            (false, false, Action::Discard) => "nothing was changed: --yes discards them\n",
            (false, true, _) => "",
        });
        text
    }

    pub(super) fn object(&self, topic: &str, run: Option<&str>) -> Value {
        let held: Vec<_> = self
            .holds()
            .into_iter()
            .map(|(hold, count)| json!({ "why": hold.to_string(), "letters": count }))
            .collect();
        json!({
            "topic": topic, "run": run, "executed": self.executed, "interrupted": self.interrupted,
            "letters": self.total(), "to": self.settled, "overtaking": self.overtaking,
            "held_back": held,
        })
    }

    fn holds(&self) -> BTreeMap<&Hold, u64> {
        let mut counts = BTreeMap::new();
        for hold in self.held.values() {
            let count: &mut u64 = counts.entry(hold).or_default();
            *count = count.saturating_add(1);
        }
        counts
    }
}
