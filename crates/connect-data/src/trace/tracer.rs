//! Source of spans.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};

use super::carrier;
use super::context::{SpanId, TraceContext, TraceId};
use super::log::SpanLog;
use super::rules::SpanRules;
use super::sampler::Sampler;
use super::span::{OpenSpan, RowMoment};
use super::{TRACEPARENT, TRACESTATE};

/// Seed of ids: random, and different for each process.
#[derive(Debug, Clone, Copy)]
pub struct Seed(pub [u8; 16]);

/// Source of the spans of rows. Clones are handles.
#[derive(Debug, Clone)]
pub struct Tracer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    sampler: Sampler,
    seed: Seed,
    count: AtomicU64,
    /// Log of spans; without one nothing is exported, and records have the context of their row.
    log: Option<SpanLog>,
}

/// A record's headers, and its span when it is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    traceparent: String,
    tracestate: Option<String>,
    span: Option<OpenSpan>,
}

impl Begun {
    /// Returns the headers, by name.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let state = self.tracestate.as_deref().map(|text| (TRACESTATE, text));
        std::iter::once((TRACEPARENT, self.traceparent.as_str())).chain(state)
    }
}

impl Tracer {
    /// Creates the tracer of a process that exports to `log`, or not at all.
    #[must_use]
    pub fn new(sampler: Sampler, seed: Seed, log: Option<SpanLog>) -> Self {
        Self(Arc::new(Inner { sampler, seed, count: AtomicU64::new(0), log }))
    }

    /// Begins the spans of a row of `table` with this text of its context. Returns `None` if the row has no spans.
    #[must_use]
    pub fn begin(
        &self,
        rules: &SpanRules,
        text: Option<&str>,
        table: &Arc<str>,
        row: RowMoment,
    ) -> Option<Begun> {
        if text.is_none() && rules.only_with_context {
            return None;
        }
        let parent = text.and_then(carrier::read);
        if self.0.log.is_none() {
            let parent = parent?;
            return Some(Begun { traceparent: parent.parent(), tracestate: parent.state, span: None });
        }
        let [trace, write, send] = self.ids()?;
        let trace = parent.as_ref().map_or(TraceId::new(trace)?, |parent| parent.trace);
        let span = OpenSpan {
            trace,
            parent: parent.as_ref().map(|parent| parent.span),
            write: half(write)?,
            send: half(send)?,
            state: parent.as_ref().and_then(|parent| parent.state.clone()),
            name: Arc::clone(&rules.operation),
            table: Arc::clone(table),
            row,
        };
        let sampled = self.0.sampler.takes(trace, parent.as_ref());
        let context = TraceContext { trace, span: span.send, sampled, state: None };
        Some(Begun {
            traceparent: context.parent(),
            tracestate: span.state.clone(),
            span: sampled.then_some(span),
        })
    }

    /// Opens the spans of a record that is about to be sent with these headers.
    pub fn open(&self, begun: &Begun) {
        if let (Some(log), Some(span)) = (&self.0.log, &begun.span) {
            log.open(span.clone());
        }
    }

    /// Makes three unique ids.
    fn ids(&self) -> Option<[[u8; 16]; 3]> {
        let count = self.0.count.fetch_add(1, Ordering::Relaxed);
        let id = |which: u8| -> Option<[u8; 16]> {
            let digest = Sha256::new().chain_update(self.0.seed.0).chain_update(count.to_be_bytes());
            digest.chain_update([which]).finalize().first_chunk().copied()
        };
        Some([id(0)?, id(1)?, id(2)?])
    }
}

fn half(id: [u8; 16]) -> Option<SpanId> {
    SpanId::new(*id.first_chunk()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Delivery;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const ROW: RowMoment = RowMoment { committed_us: 5, read_us: 7, operation: "c", lsn: 1, xid: Some(9) };

    fn begin(log: Option<&SpanLog>, only_with_context: bool, text: Option<&str>) -> (Tracer, Option<Begun>) {
        let tracer = Tracer::new(Sampler::default(), Seed([7; 16]), log.cloned());
        let rules = SpanRules::new(None, None, only_with_context);
        let begun = tracer.begin(&rules, text, &"public.outbox".into(), ROW);
        (tracer, begun)
    }

    /// With the next, what `ActivateTracingSpanTest` shows. There the header names the outer span, until the producer's own
    /// instrumentation puts the one that sends in its place; here it names that one at once.
    #[test]
    fn a_row_s_trace_continues() {
        let log = SpanLog::new(9, 9, || {});
        let (tracer, begun) = begin(Some(&log), true, Some(&format!("traceparent={PARENT}\ntracestate=a=b")));
        let begun = begun.unwrap();
        let sent = TraceContext::parse(&begun.traceparent, None).unwrap();
        assert_eq!(sent.trace.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_ne!(sent.span.to_string(), "b7ad6b7169203331");
        assert_eq!((sent.sampled, begun.tracestate.as_deref()), (true, Some("a=b")));
        let header = begun.traceparent.clone();
        tracer.open(&begun);
        log.finish(header.as_bytes(), Delivery { topic: "t", partition: 2, offset: 3, at_us: 11 });
        let [done] = &log.take()[..] else { panic!("one span") };
        assert_eq!(done.span.parent.unwrap().to_string(), "b7ad6b7169203331");
        assert_eq!((done.span.send, done.span.trace), (sent.span, sent.trace));
        assert_ne!(done.span.write, done.span.send);
    }

    #[test]
    fn which_rows_have_spans() {
        let log = SpanLog::new(9, 9, || {});
        let unsampled = PARENT.replace("-01", "-00");
        // Whether there is a header, and whether it names the row's trace.
        let cases = [
            (true, true, None, None),
            (true, false, None, Some(false)),
            (true, true, Some(PARENT), Some(true)),
            (true, true, Some(unsampled.as_str()), Some(true)),
            // As in Debezium: a context that cannot be read is there, and the trace begins here.
            (true, true, Some("nonsense"), Some(false)),
            (false, false, None, None),
            (false, true, Some("nonsense"), None),
            (false, true, Some(PARENT), Some(true)),
        ];
        for (exports, only, text, expected) in cases {
            let (_, begun) = begin(exports.then_some(&log), only, text);
            let of_row =
                begun.as_ref().map(|begun| begun.traceparent.contains("0af7651916cd43dd8448eb211c80319c"));
            assert_eq!(of_row, expected, "{exports} {only} {text:?}");
            let recorded = begun.is_some_and(|begun| begun.span.is_some());
            assert_eq!(
                recorded,
                exports && expected.is_some() && text != Some(&unsampled),
                "{exports} {text:?}"
            );
        }
        let (_, unchanged) = begin(None, true, Some(PARENT));
        assert_eq!(unchanged.unwrap().traceparent, PARENT);
    }

    #[test]
    fn ids_are_never_the_same() {
        let tracer = Tracer::new(Sampler::default(), Seed([7; 16]), None);
        let mut ids: Vec<_> = (0..100).flat_map(|_| tracer.ids().unwrap()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 300);
    }
}
