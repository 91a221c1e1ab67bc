//! Ids of traces and spans.

use std::fmt;

/// Length of a `traceparent` in version 00, in bytes.
const LENGTH: usize = 55;
/// Longest header in bytes that is searched for a `traceparent`, which a converter may wrap in a schema and quotation
/// marks.
const HEADER_LENGTH_MAX: usize = 512;
/// Prefix of each `traceparent` that outboxd makes.
const BEGINNING: &[u8] = b"00-";
/// Limits of the specification for a `tracestate`.
const STATE_LENGTH_MAX: usize = 512;
const STATE_MEMBERS_MAX: usize = 32;
/// Bit of the flags that marks the trace as recorded.
const SAMPLED: u8 = 1;

/// Id of a trace. Never all zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceId([u8; 16]);

/// Id of a span in a trace. Never all zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

/// A span, as passed from one process to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// Trace of the span.
    pub trace: TraceId,
    /// The span in the trace.
    pub span: SpanId,
    /// True if the trace is recorded.
    pub sampled: bool,
    /// Vendor-specific state of the trace (`tracestate`).
    pub state: Option<String>,
}

impl TraceId {
    /// Makes an id. Returns `None` for all zeros.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Option<Self> {
        if u128::from_be_bytes(bytes) == 0 { None } else { Some(Self(bytes)) }
    }

    /// Returns the bytes of the id, in OTLP's order.
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl SpanId {
    /// Makes an id. Returns `None` for all zeros.
    #[must_use]
    pub const fn new(bytes: [u8; 8]) -> Option<Self> {
        if u64::from_be_bytes(bytes) == 0 { None } else { Some(Self(bytes)) }
    }

    /// Returns the bytes of the id, in OTLP's order.
    pub const fn bytes(self) -> [u8; 8] {
        self.0
    }

    /// Returns the span of the `traceparent` in a header, as outboxd makes them, in any wrapping by its converter. A
    /// column may have set the header, so it may have any content and length.
    #[must_use]
    pub fn in_header(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > HEADER_LENGTH_MAX {
            return None;
        }
        bytes
            .windows(LENGTH)
            .filter(|window| window.starts_with(BEGINNING))
            .filter_map(|window| std::str::from_utf8(window).ok())
            .find_map(|text| TraceContext::parse(text, None))
            .map(|context| context.span)
    }
}

impl TraceContext {
    /// Reads `traceparent`, and `tracestate` if it is valid. In an unknown version the fields of version 00 are read,
    /// and the rest is ignored.
    #[must_use]
    pub fn parse(parent: &str, state: Option<&str>) -> Option<Self> {
        let mut parts = parent.trim().splitn(5, '-');
        let [version] = hex(parts.next()?)?;
        let (trace, span) = (hex(parts.next()?)?, hex(parts.next()?)?);
        let [flags] = hex(parts.next()?)?;
        if version == 0xff || version == 0 && parts.next().is_some() {
            return None;
        }
        Some(Self {
            trace: TraceId::new(trace)?,
            span: SpanId::new(span)?,
            sampled: flags & SAMPLED != 0,
            state: state.and_then(state_of),
        })
    }

    /// Returns the `traceparent`, in version 00.
    #[must_use]
    pub fn parent(&self) -> String {
        let flags = if self.sampled { SAMPLED } else { 0 };
        format!("00-{}-{}-{flags:02x}", self.trace, self.span)
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

/// Parses hexadecimal digits of exactly this number of bytes. Capitals are not allowed.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

/// Returns a valid `tracestate`. An invalid one is dropped, as the specification requires.
fn state_of(text: &str) -> Option<String> {
    let text = text.trim();
    let members = || text.split(',').map(str::trim).filter(|member| !member.is_empty());
    let is_right = !text.is_empty()
        && text.len() <= STATE_LENGTH_MAX
        && text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
        && members().count() <= STATE_MEMBERS_MAX
        && members().all(|member| member.split_once('=').is_some_and(|(key, _)| !key.is_empty()));
    is_right.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    #[test]
    fn what_w3c_allows_is_read_and_nothing_else() {
        let right = [
            (format!("00-{TRACE}-{SPAN}-01"), true),
            (format!(" 00-{TRACE}-{SPAN}-00\n"), false),
            (format!("00-{TRACE}-{SPAN}-03"), true),
            (format!("cc-{TRACE}-{SPAN}-01"), true),
            (format!("cc-{TRACE}-{SPAN}-01-what-comes-later"), true),
        ];
        for (text, sampled) in right {
            let context = TraceContext::parse(&text, None).unwrap();
            assert_eq!((context.trace.to_string(), context.span.to_string()), (TRACE.into(), SPAN.into()));
            assert_eq!(context.sampled, sampled, "{text}");
        }
        let wrong = [
            String::new(),
            "traceparent".to_owned(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{TRACE}0-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}é-01"),
        ];
        for text in wrong {
            assert_eq!(TraceContext::parse(&text, None), None, "{text}");
        }
    }

    #[test]
    fn a_state_is_kept_when_it_is_one() {
        let parent = format!("00-{TRACE}-{SPAN}-01");
        let state = |text: &str| TraceContext::parse(&parent, Some(text)).unwrap().state;
        assert_eq!(state(" congo=t61rcWkgMzE,rojo=1 ").as_deref(), Some("congo=t61rcWkgMzE,rojo=1"));
        let many: Vec<_> = (0..33).map(|member| format!("k{member}=v")).collect();
        for wrong in
            ["", " ", "congo", "=v", "a=b\nc=d", "a=ü", &many.join(","), &format!("a={}", "b".repeat(511))]
        {
            assert_eq!(state(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_span_is_found_in_what_a_converter_has_made() {
        let parent = format!("00-{TRACE}-{SPAN}-01");
        let json = format!("{{\"schema\":{{\"type\":\"string\"}},\"payload\":\"{parent}\"}}");
        let avro = [&[0, 0, 0, 0, 7, 110][..], parent.as_bytes()].concat();
        for bytes in [parent.as_bytes(), format!("\"{parent}\"").as_bytes(), json.as_bytes(), &avro] {
            assert_eq!(SpanId::in_header(bytes).unwrap().to_string(), SPAN);
        }
        let [long, longest] =
            [HEADER_LENGTH_MAX + 1, HEADER_LENGTH_MAX].map(|length| format!("{parent:>length$}"));
        assert_eq!(SpanId::in_header(longest.as_bytes()).unwrap().to_string(), SPAN);
        for none in [&long, "null", &"00-".repeat(100)] {
            assert_eq!(SpanId::in_header(none.as_bytes()), None, "{none}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(trace in 1u128.., span in 1u64.., sampled: bool) {
            let context = TraceContext {
                trace: TraceId::new(trace.to_be_bytes()).unwrap(),
                span: SpanId::new(span.to_be_bytes()).unwrap(),
                sampled,
                state: None,
            };
            prop_assert_eq!(TraceContext::parse(&context.parent(), None), Some(context.clone()));
            prop_assert_eq!(SpanId::in_header(context.parent().as_bytes()), Some(context.span));
        }

        #[test]
        fn any_text_is_read_or_refused(parent: String, state: String) {
            if let Some(context) = TraceContext::parse(&parent, Some(&state)) {
                prop_assert_eq!(TraceContext::parse(&context.parent(), context.state.as_deref()), Some(context));
            }
        }
    }
}
