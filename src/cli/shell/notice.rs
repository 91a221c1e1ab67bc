//! Notice when an answer from elsewhere is late.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;

use super::progress::Progress;
use super::waiting::PATIENCE;
use crate::cli::print_message;
use crate::kafka::{Error, Options, TopicScan};

/// Guard of a wait for an answer: while it exists, the wait is reported once, after a second. A thread of its
/// own reports it, because the waiting one may block.
pub(in crate::cli) struct Notice {
    /// Channel on which nothing is sent: dropping it is the signal.
    _answered: Sender<()>,
}

impl Notice {
    pub(in crate::cli) fn new(for_what: String) -> Self {
        Self::on(&Progress::hidden(), for_what)
    }

    /// Creates one that reports above a bar.
    pub(in crate::cli) fn on(progress: &Progress, for_what: String) -> Self {
        let (answered, waiting) = channel();
        let progress = progress.clone();
        // Where no thread can be created, nothing is reported.
        drop(thread::Builder::new().name("notice".to_owned()).spawn(move || {
            if waiting.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                progress.above(|| print_message(&format!("waiting for {for_what}")));
            }
        }));
        Self { _answered: answered }
    }

    pub(in crate::cli) fn of_kafka(progress: &Progress, options: &Options) -> Self {
        Self::on(progress, format!("Kafka at {}", options.bootstrap_servers))
    }
}

/// Requests where topics begin and end. Blocks.
pub(in crate::cli) fn open_scan(
    options: &Options,
    topics: &[String],
    since_ms: Option<i64>,
    progress: &Progress,
) -> Result<TopicScan, Error> {
    let _notice = Notice::of_kafka(progress, options);
    TopicScan::open(options, topics, since_ms)
}
