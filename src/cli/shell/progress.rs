//! Progress bar of a command.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const TICK: Duration = Duration::from_millis(200);
const COUNTED: &str = "{msg} {wide_bar} {human_pos} of {human_len}, {per_sec}, {eta} left";
const UNCOUNTED: &str = "{spinner} {msg} {human_pos}, {per_sec}";
const WAITING: &str = "{spinner} {wide_msg}";

/// The bar at the foot of a terminal. Elsewhere there is none.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Progress(ProgressBar);

impl Progress {
    pub(in crate::cli) fn new() -> Self {
        if !io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// Creates a hidden one, also on a terminal.
    pub(in crate::cli) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Begins to count, up to `total` when that is known.
    pub(in crate::cli) fn begin(&self, what: &'static str, total: Option<u64>) {
        self.appear();
        self.style(if total.is_some() { COUNTED } else { UNCOUNTED });
        self.0.set_length(total.unwrap_or_default());
        self.0.set_position(0);
        self.0.reset_eta();
        self.0.set_message(what);
    }

    pub(in crate::cli) fn step(&self) {
        self.0.inc(1);
    }

    pub(in crate::cli) fn advance(&self, by: u64) {
        self.0.inc(by);
    }

    pub(in crate::cli) fn waiting(&self, what: &str) {
        self.appear();
        self.style(WAITING);
        self.0.set_message(what.to_owned());
    }

    /// Lets something be printed above the bar.
    pub(in crate::cli) fn above(&self, print: impl FnOnce()) {
        self.0.suspend(print);
    }

    pub(in crate::cli) fn end(&self) {
        self.0.finish_and_clear();
    }

    /// Shows the bar again after an end: a finished bar is invisible, and its clock is stopped.
    fn appear(&self) {
        if self.0.is_finished() {
            self.0.reset();
            if !self.0.is_hidden() {
                self.0.enable_steady_tick(TICK);
            }
        }
    }

    fn style(&self, template: &str) {
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.0.set_style(style);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    use super::*;

    /// Text that was printed on a terminal.
    #[derive(Debug, Clone, Default)]
    struct Told(Arc<Mutex<String>>);

    impl TermLike for Told {
        fn width(&self) -> u16 {
            80
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_bar_that_was_ended_comes_again() {
        let told = Told::default();
        let target = ProgressDrawTarget::term_like(Box::new(told.clone()));
        let progress = Progress(ProgressBar::with_draw_target(None, target));
        progress.waiting("counting");
        progress.end();
        progress.begin("deleting", Some(3));
        progress.advance(1);
        progress.0.force_draw();
        assert!(told.0.lock().unwrap().contains("1 of 3"), "{told:?}");
        progress.end();
    }
}
