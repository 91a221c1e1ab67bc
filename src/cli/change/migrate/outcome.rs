//! Outcome of a step of a migration.

use serde_json::json;

use super::args::From;
use crate::cli::shell::ask::Answer;
use crate::cli::shell::steps::CompletedSteps;
use crate::cli::{print, print_message};
use crate::error::Exit;

/// Outcome of `start`, `finish` or `rollback`: the same for every source.
pub(super) struct Outcome<'a> {
    pub(super) command: &'static str,
    pub(super) from: From<'a>,
    /// Table, slot or connector of the migration.
    pub(super) name: String,
    /// True if the command is complete; otherwise the user declined, or the command must be run again.
    pub(super) done: bool,
    /// Text for the user, in one line; none when nothing was done.
    pub(super) said: Option<String>,
    /// Next command, and the one that undoes this one.
    pub(super) next: Option<String>,
    pub(super) undo: Option<String>,
    pub(super) doing: CompletedSteps,
}

impl<'a> Outcome<'a> {
    pub(super) fn new(
        command: &'static str,
        from: From<'a>,
        name: impl Into<String>,
        doing: CompletedSteps,
    ) -> Self {
        let name = name.into();
        Self { command, from, name, done: true, said: None, next: None, undo: None, doing }
    }

    pub(super) fn said(self, said: impl Into<String>) -> Self {
        Self { said: Some(said.into()), ..self }
    }

    pub(super) fn next(self, next: impl Into<String>) -> Self {
        Self { next: Some(next.into()), ..self }
    }

    pub(super) fn undo(self, undo: impl Into<String>) -> Self {
        Self { undo: Some(undo.into()), ..self }
    }

    /// Marks the command as not done: it must be run again.
    pub(super) fn not_done(self) -> Self {
        Self { done: false, ..self }
    }

    /// Prints the outcome of a command that the user declined.
    pub(super) fn declined(self, as_json: bool) -> Exit {
        let _ = self.not_done().report(as_json);
        Answer::No.exit()
    }

    /// Prints the outcome.
    pub(super) fn report(self, as_json: bool) -> Exit {
        let Self { command, from, name, done, said, next, undo, doing } = self;
        if as_json {
            let from = match from {
                From::Poller => "poller",
                From::Slot(_) => "slot",
                From::Connector(_) => "connector",
            };
            let object = json!({
                "command": command, "from": from, "name": name, "done": done, "said": said, "steps": doing.object(),
                "next": next, "undo": undo,
            });
            print(&format!("{object}\n"));
            return Exit::Ok;
        }
        if let Some(said) = said {
            print(&format!("{said}\n"));
        }
        let lines = [("now", next), ("undo", undo)];
        for (what, text) in lines.into_iter().filter_map(|(what, text)| Some((what, text?))) {
            print_message(&format!("  {what}: {text}"));
        }
        Exit::Ok
    }
}
