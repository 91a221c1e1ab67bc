//! What the topics mean for a relay.

use super::codes;
use super::report::{Check, Outcome};
use super::tables::{self, Outbox};
use crate::kafka::{Settings, Topic};
use crate::outbox::EventRouter;

/// A topic that events will go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) topic: String,
    /// Whether records may come without a key.
    pub(super) key_may_be_null: bool,
}

impl Target {
    /// The dead-letter topic: rows without a key may be in it.
    pub(super) fn dead_letters(topic: &str) -> Self {
        Self { topic: topic.to_owned(), key_may_be_null: true }
    }
}

/// The topics that can be known now: the only one there is, or those that rows in the tables lead to.
pub(super) fn targets(router: &EventRouter, outboxes: &[(Outbox, Vec<String>)]) -> (Vec<Target>, Vec<Check>) {
    let key_may_be_null = outboxes.iter().any(|(outbox, _)| outbox.key_may_be_null());
    if let Some(topic) = only_topic(router) {
        return (vec![Target { topic, key_may_be_null }], Vec::new());
    }
    let (mut targets, mut checks) = (Vec::<Target>::new(), Vec::new());
    for (outbox, values) in outboxes {
        for value in values {
            match router.topic(value) {
                Ok(topic) if targets.iter().any(|known| known.topic == topic) => {}
                Ok(topic) => targets.push(Target { topic, key_may_be_null: outbox.key_may_be_null() }),
                Err(problem) => checks.push(no_topic(outbox, &problem.to_string())),
            }
        }
    }
    checks.dedup();
    (targets, checks)
}

/// The topic that every route leads to, when there is only one.
fn only_topic(router: &EventRouter) -> Option<String> {
    let [one, other] = ["a", "B.2"].map(|value| router.topic(value).ok());
    one.filter(|topic| other.as_ref() == Some(topic))
}

fn no_topic(outbox: &Outbox, problem: &str) -> Check {
    let (table, column) = (tables::name(&outbox.table), outbox.route_column().unwrap_or_default());
    let title =
        format!("column \"{column}\" of table {table} holds a value that leads to no topic: {problem}");
    Check::warning(codes::ROUTES, title)
        .detail("a new row with such a value stops the relay (exit 6)")
        .cure("write other values, or map them with route.topic.regex and route.topic.replacement")
}

/// A topic that does not exist: whether the broker makes it on the first record.
pub(super) fn missing(target: &Target, broker: Option<&Settings>) -> Vec<Check> {
    let topic = &target.topic;
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

/// A topic that exists.
pub(super) fn existing(target: &Target, topic: &Topic, settings: Option<&Settings>) -> Vec<Check> {
    let name = &topic.name;
    let title = format!(
        "topic {name:?} exists with {} and {}",
        counted(topic.partitions, "partition"),
        counted(topic.replicas, "copy")
    );
    let mut checks = vec![Check::ok(codes::TOPIC, title)];
    checks.extend(leaderless(topic));
    let Some(settings) = settings else { return checks };
    checks.push(durability(name, topic.replicas, settings));
    checks.extend(out_of_sync(topic, settings));
    checks.extend(compaction(target, settings));
    checks.extend(message_size(name, settings));
    checks
}

pub(super) fn leaderless(topic: &Topic) -> Option<Check> {
    (topic.leaderless > 0).then(|| {
        let partitions = counted(topic.leaderless, "partition");
        Check::failure(codes::WRITABLE, format!("topic {:?} has {partitions} without a leader", topic.name))
            .cure("start the brokers that hold them: kafka-topics.sh --describe --unavailable-partitions")
    })
}

/// Nothing that depends on the settings is known.
pub(super) fn unseen_settings(topic: &str) -> Check {
    Check::skipped(codes::TOPIC_SETTINGS, format!("outboxd may not see the settings of topic {topic:?}"))
}

/// What `acks=all` is worth.
pub(super) fn durability(topic: &str, copies: usize, settings: &Settings) -> Check {
    let code = codes::DURABILITY;
    let in_sync_min = settings.number("min.insync.replicas").unwrap_or(1);
    let raise = format!(
        "kafka-configs.sh --bootstrap-server … --alter --entity-type topics --entity-name {topic} --add-config \
         min.insync.replicas=2"
    );
    match copies {
        0 | 1 => Check::warning(code, format!("acks=all is not durable here: topic {topic:?} has one copy"))
            .detail("if that broker's disk fails, events are lost that are already confirmed to PostgreSQL")
            .cure(format!("give it 3 copies with kafka-reassign-partitions.sh, then\n{raise}")),
        _ if in_sync_min > copies => Check::failure(
            code,
            format!("topic {topic:?} takes no records: min.insync.replicas={in_sync_min} of {copies} copies"),
        )
        .cure(raise),
        _ if in_sync_min < 2 => Check::warning(
            code,
            format!("acks=all may mean one copy: topic {topic:?} has min.insync.replicas={in_sync_min}"),
        )
        .cure(raise),
        _ if in_sync_min == copies => Check::note(
            code,
            format!(
                "topic {topic:?} takes no records while a broker is away: min.insync.replicas={in_sync_min} of {copies} copies"
            ),
        ),
        _ => Check::ok(
            code,
            format!("topic {topic:?} is durable: {copies} copies, min.insync.replicas={in_sync_min}"),
        ),
    }
}

fn out_of_sync(topic: &Topic, settings: &Settings) -> Option<Check> {
    let needed = settings.number("min.insync.replicas").unwrap_or(1);
    let outcome = match topic.in_sync {
        in_sync if in_sync < needed => Outcome::Failure,
        in_sync if in_sync < topic.replicas => Outcome::Warning,
        _ => return None,
    };
    let title = format!(
        "topic {:?} has {} of {} copies in sync, and needs {needed}",
        topic.name, topic.in_sync, topic.replicas
    );
    Some(
        Check::new(codes::WRITABLE, outcome, title)
            .cure("see why brokers lag behind: kafka-topics.sh --describe --under-replicated-partitions"),
    )
}

fn compaction(target: &Target, settings: &Settings) -> Option<Check> {
    let compacted = settings.get("cleanup.policy")?.split(',').any(|policy| policy.trim() == "compact");
    let topic = &target.topic;
    match (compacted, target.key_may_be_null) {
        (false, _) => None,
        (true, true) => Some(
            Check::warning(codes::COMPACTION, format!("topic {topic:?} is compacted, and keys may be NULL"))
                .detail("a compacted topic refuses a record without a key, which stops the relay (exit 6)")
                .cure("make the key's column NOT NULL, or set cleanup.policy=delete"),
        ),
        (true, false) => Some(
            Check::note(codes::COMPACTION, format!("topic {topic:?} is compacted"))
                .detail("of each key only the last event is kept for good"),
        ),
    }
}

fn message_size(topic: &str, settings: &Settings) -> Option<Check> {
    let bytes = settings.number("max.message.bytes")?;
    Some(Check::ok(
        codes::MESSAGE_SIZE,
        format!("topic {topic:?} takes record batches of up to {bytes} bytes"),
    ))
}

/// Whether the dead-letter topic takes what another topic finds too large, by their `max.message.bytes`.
pub(super) fn letter_size(dead_letters: &Target, max: usize, others: &[(&str, usize)]) -> Check {
    let topic = &dead_letters.topic;
    match others.iter().find(|(_, other_max)| *other_max >= max) {
        None => Check::ok(codes::LETTER_SIZE, format!("dead-letter topic {topic:?} takes up to {max} bytes")),
        Some((other, other_max)) => Check::note(
            codes::LETTER_SIZE,
            format!("dead-letter topic {topic:?} takes up to {max} bytes, and topic {other:?} up to {other_max}"),
        )
        .detail("an event that is too large for both goes there without its value")
        .cure(format!(
            "kafka-configs.sh --bootstrap-server … --alter --entity-type topics --entity-name {topic} --add-config \
             max.message.bytes=…"
        )),
    }
}

fn counted(count: usize, what: &str) -> String {
    match (count, what.strip_suffix('y')) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) => format!("{count} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Outcome::{Failure, Note, Ok, Warning};
    use super::super::tables::tests::{outbox, router};
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        Settings::new(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    fn target(key_may_be_null: bool) -> Target {
        Target { topic: "orders".to_owned(), key_may_be_null }
    }

    fn topic(replicas: usize, in_sync: usize) -> Topic {
        Topic { name: "orders".to_owned(), partitions: 6, replicas, in_sync, leaderless: 0 }
    }

    fn outcome(checks: &[Check], code: codes::Code) -> Option<Outcome> {
        checks.iter().find(|check| check.code == code).map(|check| check.outcome)
    }

    #[test]
    fn topics_come_from_the_values_that_are_there() {
        let values = ["order", "order", "no topic"].map(str::to_owned).to_vec();
        let (found, checks) = targets(&router(), &[(outbox(), values)]);
        assert_eq!(found, [Target { topic: "outbox.event.order".to_owned(), key_may_be_null: false }]);
        assert_eq!(outcome(&checks, codes::ROUTES), Some(Warning));
        assert!(!checks[0].title.contains("no topic\""), "the value is told: {checks:?}");
        assert_eq!(targets(&router(), &[]), (Vec::new(), Vec::new()));
    }

    #[test]
    fn what_acks_all_is_worth() {
        let cases = [(1, "1", Warning), (3, "1", Warning), (3, "2", Ok), (2, "2", Note), (2, "3", Failure)];
        for (copies, in_sync_min, expected) in cases {
            let settings = settings(&[("min.insync.replicas", in_sync_min)]);
            let checks = existing(&target(false), &topic(copies, copies), Some(&settings));
            assert_eq!(outcome(&checks, codes::DURABILITY), Some(expected), "{copies} {in_sync_min}");
        }
    }

    #[test]
    fn copies_that_lag_behind() {
        let settings = settings(&[("min.insync.replicas", "2")]);
        for (in_sync, expected) in [(3, None), (2, Some(Warning)), (1, Some(Failure))] {
            let checks = existing(&target(false), &topic(3, in_sync), Some(&settings));
            assert_eq!(outcome(&checks, codes::WRITABLE), expected, "{in_sync}");
        }
        let leaderless = Topic { leaderless: 2, ..topic(3, 3) };
        assert_eq!(outcome(&existing(&target(false), &leaderless, None), codes::WRITABLE), Some(Failure));
    }

    #[test]
    fn compacted_topics_want_keys() {
        let cases =
            [("delete", true, None), ("compact", false, Some(Note)), ("compact,delete", true, Some(Warning))];
        for (policy, key_may_be_null, expected) in cases {
            let settings = settings(&[("cleanup.policy", policy), ("max.message.bytes", "1048588")]);
            let checks = existing(&target(key_may_be_null), &topic(3, 3), Some(&settings));
            assert_eq!(outcome(&checks, codes::COMPACTION), expected, "{policy}");
            assert!(checks.iter().any(|check| check.title.contains("1048588 bytes")));
        }
    }

    #[test]
    fn dead_letters_need_more_room_than_others() {
        let dead = Target::dead_letters("dead");
        let cases: [(usize, &[(&str, usize)], _); 4] = [
            (100, &[], Ok),
            (100, &[("a", 99)], Ok),
            (100, &[("a", 100)], Note),
            (100, &[("a", 9), ("b", 101)], Note),
        ];
        for (max, others, expected) in cases {
            assert_eq!(letter_size(&dead, max, others).outcome, expected, "{max} {others:?}");
        }
    }

    #[test]
    fn a_topic_that_is_missing_is_made_or_not() {
        let makes = settings(&[("auto.create.topics.enable", "true"), ("default.replication.factor", "1")]);
        let refuses = settings(&[("auto.create.topics.enable", "false")]);
        let cases = [(Some(&makes), Note), (Some(&refuses), Failure), (None, Warning)];
        for (broker, expected) in cases {
            let checks = missing(&target(false), broker);
            assert_eq!(outcome(&checks, codes::TOPIC), Some(expected));
            let cure = checks.iter().find_map(|check| check.cure.as_deref());
            assert!(cure.is_some_and(|cure| cure.contains("--create --topic orders")), "{checks:?}");
        }
        assert_eq!(outcome(&missing(&target(false), Some(&makes)), codes::DURABILITY), Some(Warning));
    }
}
