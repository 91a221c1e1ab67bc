//! Filters of dead letters.

use super::args::FilterArgs;
use super::letter::Cause;

/// Part of a dead letter that the filters read.
#[derive(Debug)]
pub(super) struct Candidate<'c> {
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) when_ms: Option<i64>,
    pub(super) key: Option<&'c [u8]>,
    pub(super) cause: &'c Cause,
}

impl FilterArgs {
    /// Returns whether all of the filters accept it.
    pub(super) fn takes(&self, candidate: &Candidate<'_>) -> bool {
        let Candidate { partition, offset, when_ms, key, cause } = candidate;
        let is = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        (self.places.is_empty() || self.places.iter().any(|place| place.is_at(*partition, *offset)))
            && is(&self.reason, &cause.reason)
            && is(&self.topic, &cause.topic)
            && self.exception.as_ref().is_none_or(|class| is_class(cause.exception.as_deref(), class))
            && self.key.as_ref().is_none_or(|wanted| *key == Some(wanted.as_bytes()))
            && self.since.is_none_or(|since| when_ms.is_some_and(|when| when >= since))
            && self.until.is_none_or(|until| when_ms.is_some_and(|when| when < until))
    }
}

/// Returns whether a class has this name, with or without its package.
fn is_class(found: Option<&str>, wanted: &str) -> bool {
    let simple_name = |class: &str| class.rsplit(['.', '$', ':']).next() == Some(wanted);
    found.is_some_and(|class| class == wanted || simple_name(class))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::change::dlq::place::Place;

    #[test]
    fn a_dead_letter_is_selected_when_every_filter_accepts_it() {
        let cause = Cause {
            topic: Some("orders".to_owned()),
            reason: Some("poison".to_owned()),
            exception: Some("java.lang.IllegalStateException".to_owned()),
            ..Cause::default()
        };
        let takes = |set: &dyn Fn(&mut FilterArgs)| {
            let mut filter = FilterArgs::default();
            set(&mut filter);
            filter.takes(&Candidate {
                partition: 0,
                offset: 17,
                when_ms: Some(1000),
                key: Some(b"k"),
                cause: &cause,
            })
        };
        let text = |value: &str| Some(value.to_owned());
        let place = |partition, offset| vec![Place { partition, offset }];
        assert!(takes(&|_| {}));
        assert!(takes(&|filter| filter.reason = text("poison")));
        assert!(!takes(&|filter| filter.reason = text("pois")));
        assert!(takes(&|filter| filter.exception = text("IllegalStateException")));
        assert!(takes(&|filter| filter.exception = text("java.lang.IllegalStateException")));
        assert!(!takes(&|filter| filter.exception = text("StateException")));
        assert!(takes(&|filter| filter.key = text("k")));
        assert!(!takes(&|filter| filter.key = text("K")));
        assert!(takes(&|filter| filter.topic = text("orders")));
        assert!(!takes(&|filter| filter.topic = text("order")));
        assert!(takes(&|filter| (filter.since, filter.until) = (Some(1000), Some(1001))));
        assert!(!takes(&|filter| filter.until = Some(1000)));
        assert!(takes(&|filter| filter.places = place(None, 17)));
        assert!(takes(&|filter| filter.places = place(Some(0), 17)));
        assert!(!takes(&|filter| filter.places = place(Some(1), 17)));
        assert!(!takes(&|filter| (filter.reason, filter.key) = (text("poison"), text("other"))));
    }
}
