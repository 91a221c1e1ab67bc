//! Consequences of the topics for a relay.

use super::codes;
use super::postgres::FoundOutbox;
use super::report::{Check, Outcome};
use super::tables::{self, Outbox};
use crate::change::ChangeEvents;
use crate::connect::column::ColumnDescription;
use crate::kafka::{Settings, Topic, tool_lines};
use crate::outbox::EventRouter;
use crate::postgres::TableFacts;
use crate::relay::Route;

pub(super) const IN_SYNC_MIN: &str = "min.insync.replicas";

/// Number of topics above which similar checks are combined.
const EACH_MAX: usize = 10;

/// A table, with its columns.
pub(in crate::cli) type Described = (TableFacts, Vec<ColumnDescription>);

/// A topic of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) topic: String,
    /// True if records may have no key.
    pub(super) key_may_be_null: bool,
}

impl Target {
    /// Makes the target of the dead-letter topic, which may receive records without a key.
    pub(super) fn dead_letters(topic: &str) -> Self {
        Self { topic: topic.to_owned(), key_may_be_null: true }
    }
}

/// Returns the topics that are known now: the only one, or those of the rows in the tables.
pub(super) fn targets(route: &Route, outboxes: &[FoundOutbox]) -> (Vec<Target>, Vec<Check>) {
    let (mut targets, mut checks) = (Vec::<Target>::new(), Vec::new());
    // Other transforms may choose other topics.
    if route.changes().is_some_and(|changes| !changes.has_routers_only()) {
        return (targets, checks);
    }
    // The only topic is known even without an outbox.
    let only = route.outbox().and_then(only_topic).map(|topic| Target { topic, key_may_be_null: false });
    targets.extend(only);
    for FoundOutbox { router, outbox, values } in outboxes {
        let key_may_be_null = outbox.key_may_be_null();
        let topics = match only_topic(router) {
            Some(topic) => vec![Ok(topic)],
            None => values.iter().map(|value| router.topic(value)).collect(),
        };
        for topic in topics {
            match topic {
                Ok(topic) => add(&mut targets, Target { topic, key_may_be_null }),
                Err(problem) => checks.push(no_topic(outbox, &problem.to_string())),
            }
        }
    }
    checks.dedup();
    (targets, checks)
}

/// Returns the topics of the captured tables, unless a transform chooses the topic of each record. Without
/// `via_root` the rows of a partitioned table go to the topics of its partitions.
pub(super) fn of_tables(changes: &ChangeEvents, tables: &[Described], via_root: bool) -> Vec<Target> {
    let is_routed = |columns: &[ColumnDescription]| {
        changes.event_routers().any(|router| {
            let mut needed = router.required_columns().into_iter();
            needed.all(|(_, name)| columns.iter().any(|column| column.name == name))
        })
    };
    let mut targets = Vec::<Target>::new();
    for (table, columns) in tables {
        if table.partitioned && !via_root || is_routed(columns) {
            continue;
        }
        let Some(topic) = changes.topic_of(&table.schema, &table.name) else { continue };
        let key_may_be_null = changes.key_columns(&table.schema, &table.name, columns).is_empty();
        add(&mut targets, Target { topic, key_may_be_null });
    }
    targets
}

/// Returns the names of these topics.
pub(in crate::cli) fn topics_of_tables(
    changes: &ChangeEvents,
    tables: &[Described],
    via_root: bool,
) -> Vec<String> {
    of_tables(changes, tables, via_root).into_iter().map(|target| target.topic).collect()
}

/// Adds a topic, or merges it with the same topic of another table.
pub(super) fn add(targets: &mut Vec<Target>, target: Target) {
    match targets.iter_mut().find(|known| known.topic == target.topic) {
        Some(known) => known.key_may_be_null |= target.key_may_be_null,
        None => targets.push(target),
    }
}

/// Returns the checks of all topics. If there are many, similar checks are combined.
pub(super) fn together(about: Vec<(&Target, Vec<Check>)>) -> Vec<Check> {
    let are_many = about.len() > EACH_MAX;
    let all =
        about.into_iter().flat_map(|(target, checks)| checks.into_iter().map(move |check| (target, check)));
    let mut groups: Vec<(String, Check, usize)> = Vec::new();
    for (target, check) in all {
        let kind = check.title.replace(&target.topic, "");
        let is_alike = |(known, first, _): &&mut (String, Check, usize)| {
            are_many && *known == kind && (first.code, first.outcome) == (check.code, check.outcome)
        };
        match groups.iter_mut().find(is_alike) {
            Some((.., others)) => *others = others.saturating_add(1),
            None => groups.push((kind, check, 0)),
        }
    }
    let tell = |(_, check, others): (String, Check, usize)| match others {
        0 => check,
        others => Check { title: format!("{}; the same for {others} more", check.title), ..check },
    };
    groups.into_iter().map(tell).collect()
}

/// Returns the topic of all routes, if there is only one.
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
        .fix("write other values, or map them with route.topic.regex and route.topic.replacement")
}

/// Returns the checks of an existing topic.
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
            .fix(format!(
                "start the brokers that have them: {}",
                tool_lines::topics("--describe --unavailable-partitions")
            ))
    })
}

/// Makes the skipped check for settings that cannot be read.
pub(super) fn unseen_settings(topic: &str) -> Check {
    Check::skipped(codes::TOPIC_SETTINGS, format!("outboxd may not see the settings of topic {topic:?}"))
}

/// Makes the check of the durability of `acks=all`.
pub(super) fn durability(topic: &str, copies: usize, settings: &Settings) -> Check {
    let code = codes::DURABILITY;
    let in_sync_min = settings.number(IN_SYNC_MIN).unwrap_or(1);
    let raise = tool_lines::set_property(topic, "min.insync.replicas=2");
    match copies {
        0 | 1 => Check::warning(code, format!("acks=all is not durable here: topic {topic:?} has one copy"))
            .detail("if that broker's disk fails, events are lost that are already confirmed to PostgreSQL")
            .fix(format!("give it 3 copies with kafka-reassign-partitions.sh, then\n{raise}")),
        _ if in_sync_min > copies => Check::failure(
            code,
            format!(
                "topic {topic:?} accepts no records: min.insync.replicas={in_sync_min} of {copies} copies"
            ),
        )
        .fix(raise),
        _ if in_sync_min < 2 => Check::warning(
            code,
            format!("acks=all may mean one copy: topic {topic:?} has min.insync.replicas={in_sync_min}"),
        )
        .fix(raise),
        _ if in_sync_min == copies => Check::note(
            code,
            format!(
                "topic {topic:?} accepts no records while a broker is down: min.insync.replicas={in_sync_min} of {copies} copies"
            ),
        ),
        _ => Check::ok(
            code,
            format!("topic {topic:?} is durable: {copies} copies, min.insync.replicas={in_sync_min}"),
        ),
    }
}

fn out_of_sync(topic: &Topic, settings: &Settings) -> Option<Check> {
    let needed = settings.number(IN_SYNC_MIN).unwrap_or(1);
    let outcome = match topic.in_sync {
        in_sync if in_sync < needed => Outcome::Failure,
        in_sync if in_sync < topic.replicas => Outcome::Warning,
        _ => return None,
    };
    let title = format!(
        "topic {:?} has {} of {} copies in sync, and needs {needed}",
        topic.name, topic.in_sync, topic.replicas
    );
    Some(Check::new(codes::WRITABLE, outcome, title).fix(format!(
        "see why brokers lag behind: {}",
        tool_lines::topics("--describe --under-replicated-partitions")
    )))
}

fn compaction(target: &Target, settings: &Settings) -> Option<Check> {
    let compacted = settings.get("cleanup.policy")?.split(',').any(|policy| policy.trim() == "compact");
    let topic = &target.topic;
    match (compacted, target.key_may_be_null) {
        (false, _) => None,
        (true, true) => Some(
            Check::warning(codes::COMPACTION, format!("topic {topic:?} is compacted, and keys may be NULL"))
                .detail("a compacted topic refuses a record without a key, which stops the relay (exit 6)")
                .fix("make the key's column NOT NULL, or set cleanup.policy=delete"),
        ),
        (true, false) => Some(
            Check::note(codes::COMPACTION, format!("topic {topic:?} is compacted"))
                .detail("only the last event of each key is retained"),
        ),
    }
}

fn message_size(topic: &str, settings: &Settings) -> Option<Check> {
    let bytes = settings.number("max.message.bytes")?;
    Some(Check::ok(
        codes::MESSAGE_SIZE,
        format!("topic {topic:?} accepts record batches of up to {bytes} bytes"),
    ))
}

/// Makes the check whether the dead-letter topic accepts records that are too large for another topic, by
/// their `max.message.bytes`.
pub(super) fn letter_size(dead_letters: &Target, max: usize, others: &[(&str, usize)]) -> Check {
    let topic = &dead_letters.topic;
    match others.iter().find(|(_, other_max)| *other_max >= max) {
        None => {
            Check::ok(codes::LETTER_SIZE, format!("dead-letter topic {topic:?} accepts up to {max} bytes"))
        }
        Some((other, other_max)) => Check::note(
            codes::LETTER_SIZE,
            format!(
                "dead-letter topic {topic:?} accepts up to {max} bytes, and topic {other:?} up to {other_max}"
            ),
        )
        .detail("an event that is too large for both goes there without its value")
        .fix(tool_lines::set_property(topic, "max.message.bytes=BYTES")),
    }
}

pub(super) fn counted(count: usize, what: &str) -> String {
    match (count, what.strip_suffix('y')) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) => format!("{count} {what}s"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::report::Outcome::{Failure, Note, Ok, Warning};
    use super::super::tables::tests::{outbox, router};
    use super::*;

    pub(in super::super) fn settings(pairs: &[(&str, &str)]) -> Settings {
        Settings::new(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    pub(in super::super) fn target(key_may_be_null: bool) -> Target {
        Target { topic: "orders".to_owned(), key_may_be_null }
    }

    fn topic(replicas: usize, in_sync: usize) -> Topic {
        Topic { name: "orders".to_owned(), partitions: 6, replicas, in_sync, leaderless: 0 }
    }

    pub(in super::super) fn outcome(checks: &[Check], code: codes::Code) -> Option<Outcome> {
        checks.iter().find(|check| check.code == code).map(|check| check.outcome)
    }

    #[test]
    fn topics_come_from_the_values_that_are_there() {
        let values = ["order", "order", "no topic"].map(str::to_owned).to_vec();
        let route = Route::Outbox(router());
        let (found, checks) = targets(&route, &[FoundOutbox { router: router(), outbox: outbox(), values }]);
        assert_eq!(found, [Target { topic: "outbox.event.order".to_owned(), key_may_be_null: false }]);
        assert_eq!(outcome(&checks, codes::ROUTES), Some(Warning));
        assert!(!checks[0].title.contains("no topic\""), "the value is told: {checks:?}");
        assert_eq!(targets(&route, &[]), (Vec::new(), Vec::new()));
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
    fn topics_that_are_alike_are_reported_together_when_they_are_many() {
        let targets: Vec<_> = (0..=EACH_MAX)
            .map(|number| Target { topic: format!("t{number}"), key_may_be_null: number == 3 })
            .collect();
        let compacted = settings(&[("cleanup.policy", "compact"), ("min.insync.replicas", "2")]);
        let told = |targets: &[Target]| {
            let existing = |target: &Target| {
                existing(target, &Topic { name: target.topic.clone(), ..topic(3, 3) }, Some(&compacted))
            };
            together(targets.iter().map(|target| (target, existing(target))).collect())
        };
        let checks = told(&targets);
        assert!(checks.iter().filter(|check| check.code == codes::TOPIC).count() == 1, "{checks:?}");
        assert!(checks[0].title.ends_with("; the same for 10 more"), "{checks:?}");
        let compacted: Vec<_> = checks.iter().filter(|check| check.code == codes::COMPACTION).collect();
        assert!(compacted.iter().any(|check| check.outcome == Warning && check.title.contains("t3")));
        let few = told(&targets[1..]);
        assert_eq!(few.iter().filter(|check| check.code == codes::TOPIC).count(), EACH_MAX);
    }
}
