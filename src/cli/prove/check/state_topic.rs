//! Requirements of exactly-once on Kafka.

use super::codes;
use super::report::Check;
use super::topics::{durability, leaderless, unseen_settings};
use crate::kafka::{Settings, Topic, tool_lines};
use crate::relay::TransactionOptions;

/// Returns the checks of the state's topic, which may not exist yet.
pub(super) fn state_topic(name: &str, topic: Option<&Topic>, settings: Option<&Settings>) -> Vec<Check> {
    let Some(topic) = topic else {
        let title =
            format!("topic {name:?} of exactly-once's state does not exist yet; run makes it, compacted");
        return vec![Check::note(codes::STATE_TOPIC, title).detail(
            "that needs the right to create it; without a state rows are sent from the slot's position on",
        )];
    };
    let Some(settings) = settings else {
        return std::iter::once(unseen_settings(name)).chain(leaderless(topic)).collect();
    };
    let mut checks = vec![kept_for_good(name, settings), durability(name, topic.replicas, settings)];
    checks.extend(leaderless(topic));
    checks
}

/// Makes the check of the retention: without the state, the rows that it describes are sent again.
fn kept_for_good(topic: &str, settings: &Settings) -> Check {
    let code = codes::STATE_TOPIC;
    match settings.get("cleanup.policy") {
        Some("compact") | None => {
            Check::ok(code, format!("topic {topic:?} stores the state of exactly_once"))
        }
        Some(policy) => Check::warning(
            code,
            format!(
                "topic {topic:?} forgets exactly-once's state after its retention: cleanup.policy={policy}"
            ),
        )
        .detail("a start that finds no state sends the rows after the slot's position again")
        .fix(tool_lines::set_property(topic, "cleanup.policy=compact")),
    }
}

/// Makes the skipped check of the id. A request for it would abort the transactions of a running relay.
pub(super) fn transactional_id(options: &TransactionOptions, slot: &str) -> Check {
    let id = options.transactional_id("<system identifier>", slot);
    let title = format!("only the first start shows whether outboxd may write as transactional.id {id}");
    Check::skipped(codes::TRANSACTIONAL_ID, title)
}

#[cfg(test)]
mod tests {
    use super::super::report::Outcome::{self, Failure, Note, Ok, Skipped, Warning};
    use super::*;

    #[test]
    fn a_state_must_not_be_forgotten() {
        let topic = Topic { name: "state".to_owned(), partitions: 1, replicas: 3, in_sync: 3, leaderless: 0 };
        let settings = |policy: &str| {
            let pairs = [("cleanup.policy", policy), ("min.insync.replicas", "2")];
            Settings::new(pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())))
        };
        let outcomes =
            |checks: Vec<Check>| checks.iter().map(|check| check.outcome).collect::<Vec<Outcome>>();
        let existing = |policy| outcomes(state_topic("state", Some(&topic), Some(&settings(policy))));
        assert_eq!(existing("compact"), [Ok, Ok]);
        assert_eq!(existing("delete"), [Warning, Ok]);
        assert_eq!(existing("compact,delete"), [Warning, Ok]);
        assert_eq!(outcomes(state_topic("state", None, None)), [Note]);
        assert_eq!(outcomes(state_topic("state", Some(&topic), None)), [Skipped]);
        let leaderless = Topic { leaderless: 1, ..topic };
        assert_eq!(outcomes(state_topic("state", Some(&leaderless), None)), [Skipped, Failure]);
    }
}
