//! `outboxd inbox` beside the faults.

use std::ffi::OsString;

use outboxd::internals::cli::run_with;

use crate::draw::*;
use crate::habit::Blocked;
use crate::process::{self, Process};
use crate::trial::Trial;

/// Not a test of its own: the process of the command.
#[test]
fn outboxd_process() {
    let Some(arguments) = process::arguments() else { return };
    let command_line = arguments.into_iter().map(OsString::from).collect();
    std::process::exit(run_with(command_line).code().into());
}

impl Trial<'_> {
    /// Does one thing of the operator that was drawn.
    pub(crate) fn operate(&mut self) {
        match self.draw.operator {
            Forgets => {
                let applied = self.query("SELECT id FROM effects ORDER BY n DESC LIMIT 1 OFFSET 5");
                let Some(id) = applied.first().map(|row| row.get::<_, String>(0)) else { return };
                if self.draw.dedupe != "sequence" {
                    *self.operations.forgotten.entry(id.clone()).or_default() += 1;
                    self.inbox("forget", &["--id", &id]);
                    self.produce([&id].into_iter());
                }
            }
            RetriesAndSkips => {
                let blocked = self.blocked();
                let Some(id) = self.rng.choice(&blocked).cloned() else { return };
                if self.rng.bool() {
                    self.operations.skipped.insert(id.clone());
                    self.inbox("skip", &["--id", &id]);
                } else {
                    self.allow(&id);
                    self.inbox("retry", &["--id", &id]);
                }
            }
            Releases => {
                let blocked = self.blocked();
                let Some(id) = self.rng.choice(&blocked).cloned() else { return };
                let key = self.sent[&id].0.key.clone();
                if self.rng.bool() {
                    self.allow(&id);
                    self.operations.replayed.insert(id.clone());
                    self.produce([&id].into_iter());
                }
                self.inbox("release", &["--key", &key]);
            }
        }
    }

    /// Lets everything continue, in the end.
    pub(crate) fn unblock_all(&mut self) {
        match self.draw.operator {
            Forgets => {}
            RetriesAndSkips => {
                let blocked = self.blocked();
                blocked.iter().for_each(|id| self.allow(id));
                self.inbox("retry", &["--all"]);
            }
            Releases => self.inbox("release", &["--all"]),
        }
    }

    fn blocked(&self) -> Vec<String> {
        let is_blocked = |id: &&String| self.sent[*id].1 == Blocked && !self.operations.skipped.contains(*id);
        self.sent.keys().filter(is_blocked).cloned().collect()
    }

    fn allow(&self, id: &str) {
        self.execute(&format!("INSERT INTO allowed VALUES ('{id}')"));
    }

    /// Runs a command of `outboxd inbox`. It may fail: nothing is parked, a server is away, or the consumers have no
    /// tables yet.
    fn inbox(&self, command: &str, arguments: &[&str]) {
        let (url, schema) = (self.world.postgres.url(self.name()), self.schema());
        let own =
            ["inbox", command, "--postgres", &url, "--schema", schema, "--consumer", self.name(), "--yes"];
        let mut process = Process::start("operator::outboxd_process", own.iter().chain(arguments).copied());
        let exit = process.wait_for_exit();
        if !exit.success() {
            eprintln!("outboxd inbox {command} {arguments:?} ended with {exit}: {}", process.log());
        }
    }
}
