//! Parser of a row's trace context: the span that wrote the row.

use serde_json::{Map, Value};

use super::context::TraceContext;
use super::{TRACEPARENT, TRACESTATE};

/// Longest text of a context in bytes. A longer text is ignored: a context has a few lines.
const LENGTH_MAX: usize = 8 << 10;

/// Reads the text of `java.util.Properties`, which Debezium accepts; also a JSON object, or `traceparent` alone.
pub(super) fn read(text: &str) -> Option<TraceContext> {
    let text = text.trim();
    if text.len() > LENGTH_MAX {
        return None;
    }
    if text.starts_with('{') {
        let object: Map<String, Value> = serde_json::from_str(text).ok()?;
        let entry = |name: &str| object.get(name).and_then(Value::as_str);
        return TraceContext::parse(entry(TRACEPARENT)?, entry(TRACESTATE));
    }
    if let Some(context) = TraceContext::parse(text, None) {
        return Some(context);
    }
    let entries = java_properties::read(text.as_bytes()).ok()?;
    TraceContext::parse(entries.get(TRACEPARENT)?, entries.get(TRACESTATE).map(String::as_str))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn each_way_to_write_a_context_is_read() {
        let with_state = [
            // `Properties.store` begins with the date.
            format!("#Tue Nov 24 02:40:00 UTC 2026\ntraceparent={PARENT}\ntracestate=a=b\n"),
            format!("tracestate: a=b\r\ntraceparent : {PARENT}"),
            format!("traceparent \\\n  {PARENT}\ntracestate=a\\=b"),
            format!("{{\"traceparent\":\"{PARENT}\",\"tracestate\":\"a=b\",\"other\":1}}"),
        ];
        for text in with_state {
            let context = read(&text).unwrap();
            assert_eq!(
                (context.parent().as_str(), context.state.as_deref()),
                (PARENT, Some("a=b")),
                "{text}"
            );
        }
        for text in
            [PARENT.to_owned(), format!("traceparent={PARENT}"), format!("b3=0\ntraceparent={PARENT}")]
        {
            let context = read(&text).unwrap();
            assert_eq!((context.parent().as_str(), context.state), (PARENT, None), "{text}");
        }
    }

    #[test]
    fn what_says_nothing_is_no_context() {
        let long = format!("a={}\ntraceparent={PARENT}", "b".repeat(LENGTH_MAX));
        let texts = [
            "",
            " ",
            "uber-trace-id=1:2:0:1",
            "traceparent=",
            "traceparent=00-1-2-3",
            "{",
            "{}",
            "[]",
            "{\"traceparent\":1}",
            "traceparent=\\uZZZZ",
            &long,
        ];
        for text in texts {
            assert_eq!(read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _read = read(&text);
        }
    }
}
