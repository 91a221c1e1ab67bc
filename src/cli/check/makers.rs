//! Topics that are not there, and who makes them.

use std::collections::HashMap;

use super::codes;
use super::report::Check;
use super::topics::{IN_SYNC_MIN, Target, counted, durability};
use crate::kafka::{Made, Options, Settings, TopicGroup, check_topic};

/// Who makes a topic that is not there.
#[derive(Debug)]
pub(super) enum Maker<'o> {
    /// The brokers, if they do at all.
    Brokers,
    /// outboxd, as a group of `topic.creation` says.
    Us(&'o TopicGroup),
    /// Nobody: the brokers refuse what the group says.
    Nobody(Check),
}

/// Who makes the topics of each group. The brokers are asked for one of them: the others are alike.
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

/// A topic that does not exist: who makes it with the first record.
pub(super) fn missing(target: &Target, maker: &Maker<'_>, broker: Option<&Settings>) -> Vec<Check> {
    match maker {
        Maker::Us(group) => made_by_us(&target.topic, group, broker),
        Maker::Nobody(why) => vec![why.clone()],
        Maker::Brokers => made_by_brokers(&target.topic, broker),
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
        "topic {topic:?} does not exist yet; outboxd makes it with {} and {}, as topic.creation.{} says",
        counted(partitions, "partition"),
        counted(copies, "copy"),
        group.name
    );
    let own = Settings::new(group.settings.iter().cloned());
    let settings = if own.get(IN_SYNC_MIN).is_some() { Some(&own) } else { broker };
    let durability = settings.map(|settings| durability(topic, copies, settings));
    std::iter::once(Check::note(codes::TOPIC, title)).chain(durability).collect()
}

fn made_by_brokers(topic: &str, broker: Option<&Settings>) -> Vec<Check> {
    let create = format!(
        "kafka-topics.sh --bootstrap-server … --create --topic {topic} --partitions 6 --replication-factor 3 \
         --config min.insync.replicas=2"
    );
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
            // Before there is a topic, making it well is the simpler cure.
            let durability = durability.map(|check| Check { cure: check.cure.and(Some(create)), ..check });
            std::iter::once(Check::note(codes::TOPIC, title)).chain(durability).collect()
        }
        Some(_) => {
            let title = format!("topic {topic:?} does not exist, and auto.create.topics.enable=false");
            vec![Check::failure(codes::TOPIC, title).cure(create)]
        }
        None => {
            let title = format!("topic {topic:?} does not exist, or outboxd may not see it");
            vec![
                Check::warning(codes::TOPIC, title)
                    .detail("the brokers do not say whether they make topics")
                    .cure(create),
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
            let checks = missing(&target(false), &Maker::Brokers, broker);
            assert_eq!(outcome(&checks, codes::TOPIC), Some(expected));
            let cure = checks.iter().find_map(|check| check.cure.as_deref());
            assert!(cure.is_some_and(|cure| cure.contains("--create --topic orders")), "{checks:?}");
        }
        let checks = missing(&target(false), &Maker::Brokers, Some(&makes));
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
        let checks = missing(&target(false), &Maker::Us(&group), Some(&refuses));
        assert_eq!(
            (outcome(&checks, codes::TOPIC), outcome(&checks, codes::DURABILITY)),
            (Some(Note), Some(Ok))
        );
        assert!(checks[0].title.contains("6 partitions and 3 copies"), "{checks:?}");
        let group = TopicGroup { replication_factor: -1, settings: Vec::new(), ..group };
        let checks = missing(&target(false), &Maker::Us(&group), Some(&refuses));
        assert_eq!(outcome(&checks, codes::DURABILITY), Some(Warning));
    }
}
