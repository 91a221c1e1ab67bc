//! What is said when an answer from elsewhere is late.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;

use super::progress::Progress;
use super::say;
use super::waiting::PATIENCE;
use crate::kafka::{Error, Options, TopicScan};

/// As long as this is there, the answer is waited for; that is said once, after a second. A thread of its own says it: whoever waits may block.
pub(super) struct Notice {
    /// Nothing is sent; that it is gone is all.
    _answered: Sender<()>,
}

impl Notice {
    pub(super) fn new(for_what: String) -> Self {
        Self::on(&Progress::hidden(), for_what)
    }

    /// The same above a bar.
    pub(super) fn on(progress: &Progress, for_what: String) -> Self {
        let (answered, waiting) = channel();
        let progress = progress.clone();
        // Where no thread can be had, nothing is said.
        drop(thread::Builder::new().name("notice".to_owned()).spawn(move || {
            if waiting.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                progress.above(|| say(&format!("waiting for {for_what}")));
            }
        }));
        Self { _answered: answered }
    }

    pub(super) fn of_kafka(progress: &Progress, options: &Options) -> Self {
        Self::on(progress, format!("Kafka at {}", options.bootstrap_servers))
    }
}

/// Asks where topics begin and end. Blocks.
pub(super) fn open_scan(
    options: &Options,
    topics: &[String],
    since_ms: Option<i64>,
    progress: &Progress,
) -> Result<TopicScan, Error> {
    let _notice = Notice::of_kafka(progress, options);
    TopicScan::open(options, topics, since_ms)
}
