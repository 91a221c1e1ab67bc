//! Topics that do not exist, and their creators.

use std::collections::HashMap;

use super::codes;
use super::report::Check;
use super::topics::{IN_SYNC_MIN, Target, counted, durability};
use crate::kafka::{Made, Options, Settings, TopicGroup, check_topic, tool_lines};

/// Creator of a topic that does not exist.
#[derive(Debug)]
pub(super) enum Maker<'o> {
    /// The brokers, if automatic creation is enabled.
    Brokers,
    /// outboxd, with a group of `topic.creation`.
    Us(&'o TopicGroup),
    /// None: the brokers refuse the settings of the group.
    Nobody(Check),
}

/// Creators of the topics of each group. The brokers are queried for one topic of a group: the others are
/// alike.
#[derive(Debug, Default)]
pub(super) struct Makers<'o>(HashMap<&'o str, Maker<'o>>);

impl<'o> Makers<'o> {
    pub(super) async fn of(&mut self, options: &'o Options, topic: &str) -> &Maker<'o> {
        let Some(group) = options.topic_creation.as_ref().and_then(|creation| creation.group(topic)) else {
            return &Maker::Brokers;
        };
        if !self.0.contains_key(group.name.as_str()) {
            let maker = match check_topic(options, topic).await {
                Ok(Made::Now) => Maker::Us(group),
                Ok(Made::NotByUs) => Maker::Brokers,
                Err(error) => Maker::Nobody(Check::error(codes::TOPIC, &error)),
            };
            self.0.insert(&group.name, maker);
        }
        self.0.get(group.name.as_str()).unwrap_or(&Maker::Brokers)
    }
}

/// Returns the checks of a topic that does not exist, by its creator.
pub(super) fn missing(
    target: &Target,
    maker: &Maker<'_>,
    brokers: usize,
    broker: Option<&Settings>,
) -> Vec<Check> {
    match maker {
        Maker::Us(group) => made_by_us(&target.topic, group, broker),
        Maker::Nobody(why) => vec![why.clone()],
        Maker::Brokers => made_by_brokers(&target.topic, brokers, broker),
    }
}

fn made_by_us(topic: &str, group: &TopicGroup, broker: Option<&Settings>) -> Vec<Check> {
    // -1 is the brokers' default.
    let number = |said: i32, name| {
        let default = || broker.and_then(|broker| broker.number(name)).unwrap_or(1);
        usize::try_from(said).unwrap_or_else(|_| default())
    };
    let partitions = number(group.partitions, "num.partitions");
    let copies = number(group.replication_factor, "default.replication.factor");
    let title = format!(
        "topic {topic:?} does not exist yet; outboxd creates it with {} and {} by topic.creation.{}",
        counted(partitions, "partition"),
        counted(copies, "copy"),
        group.name
    );
    let own = Settings::new(group.settings.iter().cloned());
    let settings = if own.get(IN_SYNC_MIN).is_some() { Some(&own) } else { broker };
    let durability = settings.map(|settings| durability(topic, copies, settings));
    std::iter::once(Check::note(codes::TOPIC, title)).chain(durability).collect()
}

/// Returns the line that creates the topic as durably as the cluster can.
fn create(topic: &str, brokers: usize) -> String {
    let (copies, in_sync) = (brokers.clamp(1, 3), if brokers > 1 { 2 } else { 1 });
    tool_lines::topics(&format!(
        "--create --topic {topic} --partitions 6 --replication-factor {copies} --config {IN_SYNC_MIN}={in_sync}"
    ))
}

fn made_by_brokers(topic: &str, brokers: usize, broker: Option<&Settings>) -> Vec<Check> {
    let create = create(topic, brokers);
    let setting = |name| broker.and_then(|broker| broker.get(name));
    match setting("auto.create.topics.enable") {
        Some("true") => {
            let number = |name| broker.and_then(|broker| broker.number(name)).unwrap_or(1);
            let (partitions, copies) = (number("num.partitions"), number("default.replication.factor"));
            let title = format!(
                "topic {topic:?} does not exist yet; the broker makes it with {} and {}",
                counted(partitions, "partition"),
                counted(copies, "copy")
            );
            let durability = broker.map(|broker| durability(topic, copies, broker));
            // Before the topic exists, creating it well is the simpler fix.
            let durability = durability.map(|check| Check { fix: check.fix.and(Some(create)), ..check });
            std::iter::once(Check::note(codes::TOPIC, title)).chain(durability).collect()
        }
        Some(_) => {
            let title = format!("topic {topic:?} does not exist, and auto.create.topics.enable=false");
            vec![Check::failure(codes::TOPIC, title).fix(create)]
        }
        None => {
            let title = format!("topic {topic:?} does not exist, or outboxd may not see it");
            vec![
                Check::warning(codes::TOPIC, title)
                    .detail("the brokers do not report whether they create topics")
                    .fix(create),
            ]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Outcome::{Failure, Note, Ok, Warning};
    use super::super::topics::tests::{outcome, settings, target};
    use super::*;
    use crate::kafka::TopicPatterns;

    #[test]
    fn a_topic_that_is_missing_is_made_or_not() {
        let makes = settings(&[("auto.create.topics.enable", "true"), ("default.replication.factor", "1")]);
        let refuses = settings(&[("auto.create.topics.enable", "false")]);
        let cases = [(Some(&makes), Note), (Some(&refuses), Failure), (None, Warning)];
        for (broker, expected) in cases {
            let checks = missing(&target(false), &Maker::Brokers, 3, broker);
            assert_eq!(outcome(&checks, codes::TOPIC), Some(expected));
            let fix = checks.iter().find_map(|check| check.fix.as_deref());
            assert!(
                fix.is_some_and(
                    |fix| fix.contains("--create --topic orders --partitions 6 --replication-factor 3")
                ),
                "{checks:?}"
            );
        }
        let checks = missing(&target(false), &Maker::Brokers, 3, Some(&makes));
        assert_eq!(outcome(&checks, codes::DURABILITY), Some(Warning));
    }

    #[test]
    fn a_topic_that_we_make_needs_no_broker_that_makes_it() {
        let refuses = settings(&[("auto.create.topics.enable", "false"), ("min.insync.replicas", "1")]);
        let group = TopicGroup {
            name: "default".to_owned(),
            patterns: TopicPatterns::default(),
            partitions: 6,
            replication_factor: 3,
            settings: vec![("min.insync.replicas".to_owned(), "2".to_owned())],
        };
        let checks = missing(&target(false), &Maker::Us(&group), 3, Some(&refuses));
        assert_eq!(
            (outcome(&checks, codes::TOPIC), outcome(&checks, codes::DURABILITY)),
            (Some(Note), Some(Ok))
        );
        assert!(checks[0].title.contains("6 partitions and 3 copies"), "{checks:?}");
        let group = TopicGroup { replication_factor: -1, settings: Vec::new(), ..group };
        let checks = missing(&target(false), &Maker::Us(&group), 3, Some(&refuses));
        assert_eq!(outcome(&checks, codes::DURABILITY), Some(Warning));
    }
}
