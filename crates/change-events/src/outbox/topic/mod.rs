//! Topics of route values.

pub(in crate::outbox) mod name;

use std::borrow::Cow;
use std::collections::HashMap;

use fancy_regex::Regex;

use connect_data::java::replacement::Replacement;
use connect_data::{OptionReader, Refused, java};
use name::{IllegalTopicName, check_topic_name};

const REGEX_KEY: &str = "route.topic.regex";
const REGEX_DEFAULT: &str = "(?<routedByValue>.*)";
const REPLACEMENT_KEY: &str = "route.topic.replacement";
const REPLACEMENT_DEFAULT: &str = "outbox.event.${routedByValue}";

/// Number of topics that are stored; an outbox has a handful of aggregate types.
const REMEMBERED_MAX: usize = 1024;

/// `route.topic.regex` and `route.topic.replacement`: the mapping of route values to topics (Kafka's
/// `RegexRouter`).
#[derive(Debug, Clone)]
pub struct TopicRouting {
    find: Regex,
    whole: Regex,
    replacement: Replacement,
}

/// Reason why a route value has no topic. Its text never contains the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::outbox) enum TopicError {
    #[error(transparent)]
    Illegal(#[from] IllegalTopicName),
    #[error("matching route.topic.regex takes too long on it")]
    Backtracking,
}

impl TopicRouting {
    pub(in crate::outbox) fn read(options: &mut OptionReader<'_>) -> Result<Self, Refused> {
        let regex = options.text(REGEX_KEY).unwrap_or_else(|| REGEX_DEFAULT.to_owned());
        let replacement = options.text(REPLACEMENT_KEY).unwrap_or_else(|| REPLACEMENT_DEFAULT.to_owned());
        let (find, whole) = java::regex::compile(&regex).map_err(|error| {
            options.refuse(REGEX_KEY, &regex, format!("not a regular expression: {error}"))
        })?;
        let parsed = Replacement::parse(&replacement, &find)
            .map_err(|error| options.refuse(REPLACEMENT_KEY, &replacement, error.to_string()))?;
        Ok(Self { find, whole, replacement: parsed })
    }

    /// Returns the topic of a route value: if the whole value matches, the value with the first match
    /// replaced, else the value itself.
    pub(in crate::outbox) fn topic<'v>(&self, value: &'v str) -> Result<Cow<'v, str>, TopicError> {
        let backtracking = |_| TopicError::Backtracking;
        if !self.whole.is_match(value).map_err(backtracking)? {
            return Ok(Cow::Borrowed(value));
        }
        // Java searches for the match a second time, and may find a shorter one than the whole value.
        let Some(captures) = self.find.captures(value).map_err(backtracking)? else {
            return Ok(Cow::Borrowed(value));
        };
        let (start, end) = captures.get(0).map_or((0, 0), |found| (found.start(), found.end()));
        let mut topic = value.get(..start).unwrap_or_default().to_owned();
        self.replacement.expand(&captures, &mut topic);
        topic.push_str(value.get(end..).unwrap_or_default());
        Ok(Cow::Owned(topic))
    }
}

/// Topics by route value, so that the expression runs once for each value instead of each row.
#[derive(Debug, Default)]
pub(in crate::outbox) struct TopicCache {
    ids: HashMap<String, TopicId>,
    topics: Vec<String>,
}

/// A topic in the cache, valid until the next one is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::outbox) struct TopicId(usize);

impl TopicCache {
    /// Returns the value's topic, after a check of its name.
    pub(in crate::outbox) fn learn(
        &mut self,
        routing: &TopicRouting,
        value: &str,
    ) -> Result<TopicId, TopicError> {
        if let Some(id) = self.ids.get(value) {
            return Ok(*id);
        }
        let topic = routing.topic(value)?;
        check_topic_name(&topic)?;
        if self.topics.len() >= REMEMBERED_MAX {
            self.ids.clear();
            self.topics.clear();
        }
        let id = TopicId(self.topics.len());
        self.topics.push(topic.into_owned());
        self.ids.insert(value.to_owned(), id);
        Ok(id)
    }

    /// Returns the topic's name.
    pub(in crate::outbox) fn name(&self, id: TopicId) -> &str {
        self.topics.get(id.0).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use connect_data::OptionError;
    use proptest::prelude::*;

    fn routing(regex: Option<&str>, replacement: Option<&str>) -> Result<TopicRouting, OptionError> {
        let said = |key: &str| {
            let value = if key == REGEX_KEY { regex } else { replacement };
            value.map(str::to_owned)
        };
        OptionReader::alone(&said, TopicRouting::read)
    }

    #[test]
    fn topics_are_those_of_java() {
        let cases = [
            (None, None, "Order", "outbox.event.Order"),
            (None, None, "", "outbox.event."),
            (None, None, "a\nb", "a\nb"),
            (None, None, "a$1\\b", "outbox.event.a$1\\b"),
            (None, Some("all-events"), "Order", "all-events"),
            (None, Some("${routedByValue}"), "Order", "Order"),
            (None, Some(r"\$x\\${routedByValue}"), "Order", r"$x\Order"),
            (Some("(Cust.*)"), Some("x.$1"), "Order", "Order"),
            (Some("(Ord)"), Some("x.$1"), "Order", "Order"),
            (Some("(.)(.*)"), Some("events.$2.$1"), "Order", "events.rder.O"),
            (Some(r"shop\.(.*)"), Some("events.$1.v1"), "shop.order", "events.order.v1"),
            (Some("(O)rder"), Some("$10"), "Order", "O0"),
            (Some("a|ab"), Some("x"), "ab", "xb"),
            (Some("(x)?Order"), Some("[$1]"), "Order", "[]"),
        ];
        for (regex, replacement, value, topic) in cases {
            let routing = routing(regex, replacement).unwrap();
            assert_eq!(routing.topic(value).unwrap(), topic, "{regex:?} {replacement:?} {value}");
        }
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let cases = [
            (Some(" [[a-z]"), None, "not a regular expression"),
            (None, Some("x.${nope}"), "no group named \"nope\""),
            (None, Some("x.$2"), "no group 2"),
            (None, Some("x.$"), "must be followed by a group"),
            (None, Some("x.\\"), "must be followed by the character"),
        ];
        for (regex, replacement, reason) in cases {
            let error = routing(regex, replacement).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn illegal_names_are_never_learnt() {
        let routing = routing(None, Some("${routedByValue}")).unwrap();
        let mut cache = TopicCache::default();
        for illegal in ["", ".", "..", "has space", "é", &"x".repeat(250)] {
            assert!(cache.learn(&routing, illegal).is_err(), "{illegal}");
        }
        let id = cache.learn(&routing, "a.B_c-9").unwrap();
        assert_eq!(cache.name(id), "a.B_c-9");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4))]

        #[test]
        fn many_values_need_no_more_room(values in proptest::collection::vec("[a-z]{1,8}", 0..3000)) {
            let routing = routing(None, None).unwrap();
            let mut cache = TopicCache::default();
            for value in &values {
                let id = cache.learn(&routing, value).unwrap();
                prop_assert_eq!(cache.name(id), format!("outbox.event.{value}"));
            }
            prop_assert!(cache.topics.len() <= REMEMBERED_MAX);
        }
    }
}
