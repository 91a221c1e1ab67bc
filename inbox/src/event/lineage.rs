//! Headers that link an event to its cause.

use serde_json::{Map, Value};

use super::Event;
use super::id::read_text;

/// Headers that name an event's type, of which the first existing one is used.
const TYPES: [&str; 5] = ["event_type", "eventType", "event-type", "ce_type", "type"];
/// Headers that hold the correlation id, of which the first existing one is used.
const CORRELATIONS: [&str; 3] = ["correlation_id", "correlation-id", "correlationId"];
/// Header of W3C's trace context.
const TRACEPARENT: &str = "traceparent";
/// Header with the additions of vendors to the trace context.
const TRACESTATE: &str = "tracestate";
/// Header that holds several headers as JSON, the form in which outboxd sends the outbox's column of that name.
const TOGETHER: &str = "headers";

/// Headers of an event that a service sends, which link it to the event that caused it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage {
    /// Id of the event that caused it.
    pub causation_id: String,
    /// Id of the first event of the chain, which each later event passes on.
    pub correlation_id: String,
    /// Trace context with the trace of the cause and a span of its own.
    pub traceparent: Option<String>,
    /// Value of the cause, unchanged.
    pub tracestate: Option<String>,
}

impl Lineage {
    /// Creates the lineage of an event caused by `cause`, whose id is `id`. `span` is the number of the span in which `cause` is
    /// handled.
    #[must_use]
    pub fn of(cause: &Event, id: &str, span: u64) -> Self {
        let traceparent = cause.header(TRACEPARENT).and_then(|parent| child(&parent, span));
        Self {
            causation_id: id.to_owned(),
            correlation_id: cause.correlation_id().unwrap_or_else(|| id.to_owned()),
            tracestate: traceparent.as_ref().and_then(|_| cause.header(TRACESTATE)),
            traceparent,
        }
    }

    /// Returns the value for the outbox's column `headers`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let text = |text: &String| Some(Value::from(text.as_str()));
        let members = [
            ("causation_id", text(&self.causation_id)),
            ("correlation_id", text(&self.correlation_id)),
            (TRACEPARENT, self.traceparent.as_ref().and_then(text)),
            (TRACESTATE, self.tracestate.as_ref().and_then(text)),
        ];
        let members = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(members.collect::<Map<String, Value>>())
    }
}

impl Event {
    /// Returns the type of the event, as the producer names it.
    #[must_use]
    pub fn event_type(&self) -> Option<String> {
        self.first(&TYPES)
    }

    /// Returns the correlation id, which all events of one chain have in common.
    #[must_use]
    pub fn correlation_id(&self) -> Option<String> {
        self.first(&CORRELATIONS)
    }

    /// Returns a header that is text, or the member of that name of the header `headers`.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        self.first(&[name])
    }

    fn first(&self, names: &[&str]) -> Option<String> {
        if let Some(value) = names.iter().find_map(|name| self.headers.last(name)) {
            return read_text(value).ok();
        }
        let together: Value = serde_json::from_slice(self.headers.last(TOGETHER)?).ok()?;
        names.iter().find_map(|name| together.get(name)?.as_str()).map(str::to_owned)
    }
}

/// Returns the same trace with another span: `00-{trace}-{span}-{flags}`. `None` if the parent is not in the form of version 00.
fn child(parent: &str, span: u64) -> Option<String> {
    let mut parts = parent.split('-');
    let (version, trace, of, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_known = parts.next().is_none() && version == "00" && is_hex(flags, 2);
    let is_some = |text: &str| text.bytes().any(|byte| byte != b'0');
    let is_valid = is_hex(trace, 32) && is_hex(of, 16) && is_some(trace) && is_some(of);
    (is_known && is_valid).then(|| format!("00-{trace}-{:016x}-{flags}", span.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::event;

    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn the_first_event_begins_the_correlation_and_later_ones_pass_it_on() {
        let first = Lineage::of(&event::<&str>(&[]), "a", 7);
        assert_eq!((first.causation_id.as_str(), first.correlation_id.as_str()), ("a", "a"));
        assert_eq!((&first.traceparent, &first.tracestate), (&None, &None));
        let together = first.to_json().to_string();
        let second = Lineage::of(&event(&[("headers", &together)]), "b", 8);
        assert_eq!((second.causation_id.as_str(), second.correlation_id.as_str()), ("b", "a"));
        let alone = Lineage::of(&event(&[("correlationId", "c"), ("headers", &together)]), "d", 8);
        assert_eq!(alone.correlation_id, "c");
    }

    #[test]
    fn a_trace_continues_in_a_span_of_its_own() {
        let cause = event(&[("traceparent", TRACE), ("tracestate", "vendor=1")]);
        let lineage = Lineage::of(&cause, "a", 0xB7AD_6B71_6920_3331);
        let expected = "00-4bf92f3577b34da6a3ce929d0e0e4736-b7ad6b7169203331-01";
        assert_eq!(lineage.traceparent.as_deref(), Some(expected));
        assert_eq!(lineage.to_json()["tracestate"], "vendor=1");
    }

    #[test]
    fn what_is_no_trace_is_not_passed_on() {
        let zeros = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        let upper = TRACE.to_uppercase();
        let longer = format!("{TRACE}-00");
        for wrong in ["", "00", zeros, &upper, &longer, &TRACE.replacen("00", "01", 1)] {
            let lineage = Lineage::of(&event(&[("traceparent", wrong), ("tracestate", "x=1")]), "a", 1);
            assert_eq!((lineage.traceparent, lineage.tracestate), (None, None), "{wrong}");
        }
    }

    #[test]
    fn a_type_is_found_under_the_usual_names() {
        assert_eq!(event(&[("eventType", "Paid")]).event_type().as_deref(), Some("Paid"));
        assert_eq!(event(&[("ce_type", "Paid")]).event_type().as_deref(), Some("Paid"));
        assert_eq!(event::<&str>(&[]).event_type(), None);
    }
}
