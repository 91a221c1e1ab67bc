//! Log of the spans of records in flight.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::context::SpanId;
use super::span::{Delivery, FinishedSpan, OpenSpan};

/// Most records in flight with a span. Spans before the last 10,000 to 20,000 are dropped, because a record that was
/// not sent is never acknowledged.
const OPEN_MAX: usize = 20_000;

/// Spans of records in flight, and of acknowledged records that are not exported yet. Clones are handles.
#[derive(Clone)]
pub struct SpanLog(Arc<Shared>);

struct Shared {
    /// Most finished spans that are stored; further ones are dropped.
    finished_max: usize,
    /// Number of finished spans that wakes the exporter.
    batch: usize,
    wake: Box<dyn Fn() + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Two generations: when the young one is full, the old one is dropped.
    young: HashMap<SpanId, OpenSpan>,
    old: HashMap<SpanId, OpenSpan>,
    finished: VecDeque<FinishedSpan>,
    dropped: Dropped,
}

/// Records whose spans were not exported since the last query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Finished spans that were dropped because the queue was full.
    pub queue: u64,
    /// Open spans that were dropped: too many records were in flight, or they were not sent.
    pub open: u64,
}

impl SpanLog {
    /// Creates an empty log; `wake` is called when a whole batch is finished.
    #[must_use]
    pub fn new(finished_max: usize, batch: usize, wake: impl Fn() + Send + Sync + 'static) -> Self {
        let (wake, state) = (Box::new(wake), Mutex::default());
        Self(Arc::new(Shared { finished_max, batch, wake, state }))
    }

    /// Opens the span of a record that is about to be sent.
    pub(super) fn open(&self, span: OpenSpan) {
        let mut state = self.lock();
        if state.young.len() >= OPEN_MAX / 2 {
            let old = mem::take(&mut state.young);
            let forgotten = mem::replace(&mut state.old, old).len();
            state.dropped.open =
                state.dropped.open.saturating_add(u64::try_from(forgotten).unwrap_or(u64::MAX));
        }
        state.young.insert(span.send, span);
    }

    /// Finishes the span of an acknowledged record with this `traceparent`. A record without an open span is ignored.
    pub fn finish(&self, traceparent: &[u8], delivery: Delivery<'_>) {
        let Some(id) = SpanId::in_header(traceparent) else { return };
        let mut state = self.lock();
        let Some(span) = state.young.remove(&id).or_else(|| state.old.remove(&id)) else { return };
        if state.finished.len() >= self.0.finished_max {
            state.dropped.queue = state.dropped.queue.saturating_add(1);
            return;
        }
        let Delivery { topic, partition, offset, at_us } = delivery;
        state.finished.push_back(FinishedSpan { span, topic: topic.to_owned(), partition, offset, at_us });
        let is_batch = state.finished.len() == self.0.batch;
        drop(state);
        if is_batch {
            (self.0.wake)();
        }
    }

    /// Removes and returns a batch of finished spans.
    #[must_use]
    pub fn take(&self) -> Vec<FinishedSpan> {
        let mut state = self.lock();
        let count = self.0.batch.min(state.finished.len());
        state.finished.drain(..count).collect()
    }

    /// Reports whether a whole batch is finished.
    #[must_use]
    pub fn has_batch(&self) -> bool {
        self.lock().finished.len() >= self.0.batch
    }

    /// Returns the number of dropped spans since the last call.
    #[must_use]
    pub fn take_dropped(&self) -> Dropped {
        mem::take(&mut self.lock().dropped)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SpanLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpanLog")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::trace::{RowMoment, TraceContext, TraceId};

    fn span(number: u64) -> OpenSpan {
        let id = SpanId::new((number + 1).to_be_bytes()).unwrap();
        OpenSpan {
            trace: TraceId::new([1; 16]).unwrap(),
            parent: None,
            write: id,
            send: id,
            state: None,
            name: "debezium-read".into(),
            table: "public.outbox".into(),
            row: RowMoment { committed_us: 5, read_us: 7, operation: "c", lsn: 1, xid: None },
        }
    }

    fn finish(log: &SpanLog, number: u64) {
        let OpenSpan { trace, send, .. } = span(number);
        let header = TraceContext { trace, span: send, sampled: true, state: None }.parent();
        log.finish(header.as_bytes(), Delivery { topic: "t", partition: 0, offset: 3, at_us: 9 });
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let woken = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&woken);
        let log = SpanLog::new(3, 2, move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        for number in 0..5 {
            log.open(span(number));
            finish(&log, number);
            finish(&log, number);
        }
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        assert_eq!(log.take_dropped(), Dropped { queue: 2, open: 0 });
        assert_eq!(log.take_dropped(), Dropped::default());
        assert!(log.has_batch());
        let taken = log.take();
        assert_eq!(taken.iter().map(|done| &done.span).collect::<Vec<_>>(), [&span(0), &span(1)]);
        assert_eq!((taken[0].topic.as_str(), taken[0].offset, taken[0].at_us), ("t", 3, 9));
        assert_eq!((log.take().len(), log.take().len()), (1, 0));
    }

    #[test]
    fn what_was_never_sent_is_forgotten() {
        let log = SpanLog::new(10, 10, || {});
        let many = u64::try_from(OPEN_MAX).unwrap() * 2;
        for number in 0..many {
            log.open(span(number));
        }
        let open = {
            let state = log.lock();
            state.young.len() + state.old.len()
        };
        assert!(open <= OPEN_MAX, "{open}");
        finish(&log, 0);
        finish(&log, many - 1);
        assert_eq!(log.take().len(), 1, "only the last one is still known");
        assert_eq!(log.take_dropped().open, many / 2);
    }
}
