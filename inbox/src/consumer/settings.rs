//! Options of a consumer.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::core::{AfterDeadLetter, Options, Order, Retry};

/// Options of an inbox. A setting of its own method takes precedence over the same one in `options`, whichever was set first.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    pub(super) options: Options,
    pub(super) order: Option<Order>,
    pub(super) retry: Option<Retry>,
    pub(super) after_dead_letter: Option<AfterDeadLetter>,
    pub(super) batch: Option<NonZeroUsize>,
    pub(super) workers: Option<NonZeroUsize>,
    pub(super) parked_max: Option<usize>,
    pub(super) handler_within: Option<Duration>,
}

impl Settings {
    /// Returns the options with all settings.
    pub(super) fn resolve(&self) -> Options {
        let options = self.options.clone();
        Options {
            order: self.order.unwrap_or(options.order),
            retry: self.retry.clone().unwrap_or(options.retry),
            after_dead_letter: self.after_dead_letter.unwrap_or(options.after_dead_letter),
            batch: self.batch.unwrap_or(options.batch),
            workers: self.workers.unwrap_or(options.workers),
            parked_max: self.parked_max.unwrap_or(options.parked_max),
            handler_within: self.handler_within.unwrap_or(options.handler_within),
            ..options
        }
    }
}
