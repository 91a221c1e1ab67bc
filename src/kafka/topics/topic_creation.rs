//! `topic.creation.*`: settings of missing topics that outboxd creates (Kafka Connect's KIP-158).

use fancy_regex::Regex;

use crate::connect::java;

/// The groups of topics, in their order; the last one has all topics that match no other.
#[derive(Debug, Clone)]
pub struct TopicCreation {
    groups: Vec<TopicGroup>,
    default: TopicGroup,
    /// Topic of dead letters, which the brokers create: settings for events, such as compaction, may lose
    /// dead letters.
    left_alone: Option<String>,
}

/// Settings of the topics of a group.
#[derive(Debug, Clone)]
pub struct TopicGroup {
    /// Its name in `topic.creation.groups`.
    pub name: String,
    /// `include` (nothing) and `exclude` (nothing): the topics that belong to it.
    pub patterns: TopicPatterns,
    /// `partitions`; -1 is the brokers' default.
    pub partitions: i32,
    /// `replication.factor`; -1 is the brokers' default.
    pub replication_factor: i32,
    /// Everything else: the topic's own settings.
    pub settings: Vec<(String, String)>,
}

/// The topics of a group: expressions that must match the whole name.
#[derive(Debug, Clone, Default)]
pub struct TopicPatterns {
    include: Option<Regex>,
    exclude: Option<Regex>,
}

impl TopicPatterns {
    /// Compiles the lists; one expression of each is enough.
    ///
    /// # Errors
    /// When one is no regular expression: the list, and the mistake.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self, String> {
        Ok(Self { include: compile(include)?, exclude: compile(exclude)? })
    }

    fn take(&self, topic: &str) -> bool {
        let matches = |pattern: &Option<Regex>| {
            pattern.as_ref().is_some_and(|pattern| pattern.is_match(topic).unwrap_or(false))
        };
        matches(&self.include) && !matches(&self.exclude)
    }
}

fn compile(list: &[String]) -> Result<Option<Regex>, String> {
    if list.is_empty() {
        return Ok(None);
    }
    let (_, whole) = java::regex::compile(&list.join("|")).map_err(|error| error.to_string())?;
    Ok(Some(whole))
}

impl TopicCreation {
    /// Puts the groups together.
    #[must_use]
    pub const fn new(groups: Vec<TopicGroup>, default: TopicGroup, left_alone: Option<String>) -> Self {
        Self { groups, default, left_alone }
    }

    /// Returns the group whose settings a topic is created with; none when the brokers create it.
    pub(crate) fn group(&self, topic: &str) -> Option<&TopicGroup> {
        if self.left_alone.as_deref() == Some(topic) {
            return None;
        }
        let group = self.groups.iter().find(|group| group.patterns.take(topic));
        Some(group.unwrap_or(&self.default))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_group_that_takes_a_topic_makes_it() {
        let group = |name: &str, include: &[&str], exclude: &[&str]| {
            let own = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
            TopicGroup {
                name: name.to_owned(),
                patterns: TopicPatterns::new(&own(include), &own(exclude)).unwrap(),
                partitions: 1,
                replication_factor: 1,
                settings: Vec::new(),
            }
        };
        let groups = vec![
            group("hot", &[r"srv\.hot.*", "other"], &["srv.hot_not"]),
            group("all_hot", &[".*hot.*"], &[]),
        ];
        let creation = TopicCreation::new(groups, group("default", &[], &[]), Some("dead".to_owned()));
        let cases = [
            ("srv.hot_1", "hot"),
            ("other", "hot"),
            ("srv.hot_not", "all_hot"),
            ("HOT", "default"),
            ("x.other", "default"),
        ];
        for (topic, expected) in cases {
            assert_eq!(creation.group(topic).unwrap().name, expected, "{topic}");
        }
        assert!(creation.group("dead").is_none());
        assert!(TopicPatterns::new(&["(".to_owned()], &[]).is_err());
    }
}
