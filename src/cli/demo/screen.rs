//! Standard output and standard error, as the demo uses them.

use std::env;
use std::io::{Write as _, stdout};

use console::Term;
use tokio_util::sync::CancellationToken;

use super::super::print_message;
use super::show::{self, Page, Record};

/// Output of records and messages. Clones are handles on the same screen.
#[derive(Debug, Clone)]
pub(super) struct Screen {
    no_colour: bool,
    /// Cancelled when standard output is not read any more.
    closed: CancellationToken,
}

impl Screen {
    pub(super) fn new(no_colour: bool) -> Self {
        let asked = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { no_colour: no_colour || asked, closed: CancellationToken::new() }
    }

    /// Shows a record on standard output, in the width that the terminal has now.
    pub(super) fn record(&self, record: &Record<'_>) {
        if self.closed.is_cancelled() {
            return;
        }
        let text = show::record(record, self.page());
        let mut stdout = stdout().lock();
        if stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).is_err() {
            self.closed.cancel();
        }
    }

    /// Shows a transaction that must have no record.
    pub(super) fn rolled_back(&self, event_types: &str, order: i64, reason: &str) {
        let text = format!("rolled back: {event_types} of order {order} ({reason}), never sent");
        print_message(&show::style(self.colours_talk()).dim().yellow().apply_to(text).to_string());
    }

    /// Returns whether messages have colours.
    pub(super) fn colours_talk(&self) -> bool {
        !self.no_colour && Term::stderr().is_term()
    }

    /// Waits until standard output is not read any more.
    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    fn page(&self) -> Page {
        let terminal = Term::stdout();
        match terminal.size_checked() {
            Some((_, columns)) if terminal.is_term() => {
                Page::Terminal { columns: usize::from(columns), colour: !self.no_colour }
            }
            _ => Page::Pipe,
        }
    }
}
