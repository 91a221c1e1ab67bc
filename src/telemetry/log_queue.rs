//! The bounded queue between those who log and the thread that writes.
//!
//! When standard error is not read the queue fills, and lines are dropped. How many is logged when it is read again.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

/// Most lines that wait; some megabytes at the worst.
const QUEUED_LINES_MAX: usize = 8192;

/// Longest wait at the end of the process for lines that are still queued.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(1);

/// Interval in which the end of the process checks for room in a full queue.
const FULL_QUEUE_PAUSE: Duration = Duration::from_millis(10);

/// Entry of the queue.
enum Entry {
    Line(Vec<u8>),
    End,
}

/// Takes lines and never waits.
#[derive(Debug, Clone)]
pub(super) struct LogQueue {
    entries: SyncSender<Entry>,
    dropped: Arc<AtomicU64>,
}

/// The thread that writes. Dropping it lets it write what is queued, for a second at most.
#[derive(Debug)]
pub(super) struct LogThread {
    entries: SyncSender<Entry>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

/// Starts the thread that writes to `writer`.
pub(super) fn start(writer: impl Write + Send + 'static) -> io::Result<(LogQueue, LogThread)> {
    let (entries, queued) = mpsc::sync_channel(QUEUED_LINES_MAX);
    let (ending, ended) = mpsc::sync_channel(0);
    let dropped = Arc::new(AtomicU64::new(0));
    let queue = LogQueue { entries: entries.clone(), dropped: Arc::clone(&dropped) };
    thread::Builder::new().name("log".to_owned()).spawn(move || {
        write_all(writer, &queued, &dropped);
        drop::<SyncSender<()>>(ending);
    })?;
    Ok((queue, LogThread { entries, ended }))
}

/// Writes the queued lines. Failures of standard error are ignored, because there is no other place to report
/// them.
fn write_all(mut writer: impl Write, queued: &Receiver<Entry>, dropped: &AtomicU64) {
    loop {
        let entry = match queued.try_recv() {
            Ok(entry) => entry,
            Err(_) => {
                drop(writer.flush());
                report(dropped.swap(0, Ordering::Relaxed));
                let Ok(entry) = queued.recv() else { return };
                entry
            }
        };
        match entry {
            Entry::Line(line) => drop(writer.write_all(&line)),
            Entry::End => return drop(writer.flush()),
        }
    }
}

/// Logs the number of dropped lines; the line goes into the queue like any other.
fn report(lines: u64) {
    if lines > 0 {
        tracing::warn!(lines, "log lines were dropped: stderr was not read");
    }
}

impl Write for &LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(TrySendError::Full(_)) = self.entries.try_send(Entry::Line(line.to_vec())) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogQueue {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}

impl LogThread {
    fn has_ended(&self, within: Duration) -> bool {
        self.ended.recv_timeout(within) == Err(RecvTimeoutError::Disconnected)
    }
}

impl Drop for LogThread {
    fn drop(&mut self) {
        let deadline = Instant::now() + FLUSH_TIME_MAX;
        while let Err(TrySendError::Full(_)) = self.entries.try_send(Entry::End) {
            if self.has_ended(FULL_QUEUE_PAUSE) || Instant::now() >= deadline {
                return;
            }
        }
        self.has_ended(deadline.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Writes to a page once it is let.
    #[derive(Clone, Default)]
    struct Stoppable {
        page: Arc<Mutex<Vec<u8>>>,
        stopped: Arc<Mutex<()>>,
    }

    impl Write for Stoppable {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _running = self.stopped.lock().unwrap();
            self.page.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_queued_is_written_at_the_end() {
        let pipe = Stoppable::default();
        let (queue, thread) = start(pipe.clone()).unwrap();
        for line in 0..1000 {
            writeln!(queue.make_writer(), "{line}").unwrap();
        }
        drop(thread);
        assert_eq!(pipe.page.lock().unwrap().iter().filter(|&&byte| byte == b'\n').count(), 1000);
        (&queue).write_all(b"too late").unwrap();
    }

    #[test]
    fn a_stopped_pipe_costs_lines_and_no_time() {
        let pipe = Stoppable::default();
        let stop = pipe.stopped.lock().unwrap();
        let (queue, thread) = start(pipe.clone()).unwrap();
        let begin = Instant::now();
        for _ in 0..QUEUED_LINES_MAX + 100 {
            (&queue).write_all(b"x").unwrap();
        }
        // The thread may have taken one from the queue.
        assert!((99..=100).contains(&queue.dropped.load(Ordering::Relaxed)));
        drop(thread);
        assert!(begin.elapsed() < 2 * FLUSH_TIME_MAX);
        drop(stop);
    }
}
