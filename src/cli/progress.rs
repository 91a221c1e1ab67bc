use std::io::{self, IsTerminal as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const TICK: Duration = Duration::from_millis(200);
const COUNTED: &str = "{msg} {wide_bar} {human_pos} of {human_len}, {per_sec}, {eta} left";
const UNCOUNTED: &str = "{spinner} {msg} {human_pos}, {per_sec}";
const WAITING: &str = "{spinner} {wide_msg}";

/// The bar at the foot of a terminal. Elsewhere there is none.
#[derive(Debug, Clone)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new() -> Self {
        if !io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// None, also on a terminal.
    pub(super) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Begins to count, up to `total` when that is known.
    pub(super) fn begin(&self, what: &'static str, total: Option<u64>) {
        self.style(if total.is_some() { COUNTED } else { UNCOUNTED });
        self.0.set_length(total.unwrap_or_default());
        self.0.set_position(0);
        self.0.reset_eta();
        self.0.set_message(what);
    }

    pub(super) fn step(&self) {
        self.0.inc(1);
    }

    pub(super) fn advance(&self, by: u64) {
        self.0.inc(by);
    }

    pub(super) fn waiting(&self, what: &str) {
        self.style(WAITING);
        self.0.set_message(what.to_owned());
    }

    /// Lets something be printed above the bar.
    pub(super) fn above(&self, print: impl FnOnce()) {
        self.0.suspend(print);
    }

    pub(super) fn end(&self) {
        self.0.finish_and_clear();
    }

    fn style(&self, template: &str) {
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.0.set_style(style);
        }
    }
}
