//! Choice of the traces that are recorded.

use super::context::{TraceContext, TraceId};

/// Sampler of traces (`OTEL_TRACES_SAMPLER`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sampler {
    /// This share of all traces.
    Root(Share),
    /// Traces whose row's context is sampled, and this share of the traces that begin in outboxd.
    ParentBased(Share),
}

/// Share of all traces.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Share {
    /// All traces.
    All,
    /// No trace.
    None,
    /// This number of 2^63 traces, chosen by their ids.
    Below(u64),
}

impl Default for Sampler {
    fn default() -> Self {
        Self::ParentBased(Share::All)
    }
}

impl Sampler {
    /// Reads the sampler's name and its argument: a ratio from 0 to 1, which only the ratio samplers have (default 1).
    /// Returns `None` if either is invalid.
    #[must_use]
    pub fn parse(name: &str, argument: Option<&str>) -> Option<Self> {
        Some(match name {
            "always_on" => Self::Root(Share::All),
            "always_off" => Self::Root(Share::None),
            "traceidratio" => Self::Root(Share::ratio(argument)?),
            "parentbased_always_on" => Self::ParentBased(Share::All),
            "parentbased_always_off" => Self::ParentBased(Share::None),
            "parentbased_traceidratio" => Self::ParentBased(Share::ratio(argument)?),
            _ => return None,
        })
    }

    /// Reports whether a span with this parent is recorded in this trace.
    #[must_use]
    pub(super) fn takes(self, trace: TraceId, parent: Option<&TraceContext>) -> bool {
        match (self, parent) {
            (Self::ParentBased(_), Some(parent)) => parent.sampled,
            (Self::ParentBased(share) | Self::Root(share), _) => share.has(trace),
        }
    }
}

impl Share {
    const WHOLE: f64 = 9_223_372_036_854_775_808.0;

    fn ratio(argument: Option<&str>) -> Option<Self> {
        let ratio: f64 = argument.map_or(Ok(1.0), |text| text.trim().parse()).ok()?;
        if !(0.0..=1.0).contains(&ratio) {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 2^63")]
        Some(Self::Below((ratio * Self::WHOLE) as u64))
    }

    /// Decides by the last eight bytes of the id, as the SDK for Go does. Other SDKs may choose other traces.
    fn has(self, trace: TraceId) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Below(limit) => {
                let [.., a, b, c, d, e, f, g, h] = trace.bytes();
                u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1 < limit
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::SpanId;

    fn trace(last: u64) -> TraceId {
        TraceId::new(u128::from(last).to_be_bytes()).unwrap()
    }

    #[test]
    fn who_decides_is_the_row_or_the_trace() {
        let parent = |sampled| TraceContext {
            trace: trace(1),
            span: SpanId::new([1; 8]).unwrap(),
            sampled,
            state: None,
        };
        let cases = [
            ("always_on", [true, true, true]),
            ("always_off", [false, false, false]),
            ("parentbased_always_on", [true, false, true]),
            ("parentbased_always_off", [true, false, false]),
        ];
        for (name, [sampled, unsampled, root]) in cases {
            let sampler = Sampler::parse(name, None).unwrap();
            assert_eq!(sampler.takes(trace(1), Some(&parent(true))), sampled, "{name}");
            assert_eq!(sampler.takes(trace(1), Some(&parent(false))), unsampled, "{name}");
            assert_eq!(sampler.takes(trace(1), None), root, "{name}");
        }
    }

    #[test]
    fn a_ratio_takes_that_part_of_all_ids() {
        let takes = |ratio: &str, last: u64| {
            Sampler::parse("parentbased_traceidratio", Some(ratio)).unwrap().takes(trace(last), None)
        };
        assert!(takes("1", u64::MAX) && takes("0.5", u64::MAX / 2 - 1) && takes("0.25", 1));
        assert!(!takes("0", 1) && !takes("0.5", u64::MAX / 2 + 2) && !takes("0.25", u64::MAX / 2));
        for wrong in ["-1", "1.1", "NaN", "half", ""] {
            assert_eq!(Sampler::parse("traceidratio", Some(wrong)), None, "{wrong}");
        }
        assert_eq!(Sampler::parse("jaeger_remote", None), None);
    }
}
