//! The topic in which the relay keeps its position, and what the position says about the slot.

use super::codes;
use super::report::Check;
use super::topics::leaderless;
use crate::error::{Class, Diagnose as _};
use crate::kafka::{Error, Settings, Topic};
use crate::postgres::{SlotFacts, SlotOptions};
use crate::relay::{KeptPosition, Phase};

/// What was found of the topic.
#[derive(Debug)]
pub(super) enum Found<'f> {
    /// It is not there, or may not be seen; whether we may make it.
    Nothing { may_be_made: Result<(), Error> },
    /// It is there; whether we may read it.
    Topic { topic: &'f Topic, settings: Option<&'f Settings>, read: Result<(), &'f Error> },
}

/// The topic. If its brokers lose it, a start knows less, and no event is lost.
pub(super) fn position_topic(name: &str, found: &Found<'_>) -> Vec<Check> {
    let code = codes::POSITION_TOPIC;
    let (topic, settings) = match found {
        Found::Nothing { may_be_made: Ok(()) } => {
            let title =
                format!("topic {name:?} of the positions does not exist yet; run makes it, compacted");
            return vec![Check::note(code, title)];
        }
        Found::Nothing { may_be_made: Err(error) } => return vec![not_kept(error)],
        Found::Topic { read: Err(error), .. } => return vec![not_kept(error)],
        Found::Topic { topic, settings, read: Ok(()) } => (topic, settings),
    };
    let policy = settings.and_then(|settings| settings.get("cleanup.policy"));
    let mut checks = vec![match policy {
        Some("compact") | None => Check::ok(code, format!("topic {name:?} keeps the position")),
        Some(policy) => {
            let title =
                format!("topic {name:?} forgets the position after its retention: cleanup.policy={policy}");
            Check::warning(code, title).cure(format!(
                "kafka-configs.sh --bootstrap-server … --alter --entity-type topics --entity-name {name} --add-config \
                 cleanup.policy=compact"
            ))
        }
    }];
    checks.extend(leaderless(topic));
    checks
}

fn not_kept(error: &Error) -> Check {
    let code = codes::POSITION_TOPIC;
    if error.class() != Class::Definite {
        return Check::skipped(code, format!("whether the position is kept is not known: {error}"));
    }
    let check = Check::warning(code, error.to_string()).detail(
        "outboxd runs without a position: a start does not notice a slot that was moved, dropped or made again meanwhile",
    );
    match error.cure() {
        Some(cure) => check.cure(cure),
        None => check,
    }
}

/// Compares a slot that nobody reads with the position. `explained` tells that Debezium may have used it in between.
pub(super) fn slot_position(
    options: &SlotOptions,
    position: &KeptPosition,
    slot: Option<&SlotFacts>,
    explained: bool,
) -> Option<Check> {
    let code = codes::SLOT_POSITION;
    let (kept, confirmed) = (position.lsn, slot.map(|slot| slot.confirmed_flush_lsn.unwrap_or_default()));
    if position.phase != Phase::Streaming || slot.is_some_and(|slot| slot.active_pid.is_some()) {
        return None;
    }
    Some(match confirmed {
        Some(confirmed) if confirmed <= kept => Check::ok(
            code,
            format!("the slot stands where outboxd left it, or before: its position is {kept}"),
        ),
        Some(confirmed) if explained => {
            Check::note(code, format!("the slot stands at {confirmed}, beyond outboxd's position {kept}"))
                .detail(
                    "this is right only if Debezium has read from the slot since; the stored offset \
                         then shows it",
                )
        }
        Some(confirmed) => Check::error(code, &options.moved_while_away(kept, confirmed, None)),
        None => Check::error(code, &options.vanished_while_away(Some(kept), None)),
    })
}

#[cfg(test)]
mod tests {
    use super::super::report::Outcome::{self, Failure, Note, Ok as Fine, Skipped, Warning};
    use super::super::slot::tests::{facts, options};
    use super::*;
    use crate::wal::Lsn;

    fn error(forbidden: bool) -> Error {
        let (topic, reason) = ("positions".to_owned(), "why".to_owned());
        Error::PositionTopic { doing: "read", topic, reason, forbidden }
    }

    #[test]
    fn what_keeps_a_position_from_being_kept_is_told_with_its_cure() {
        let topic = Topic { name: "t".to_owned(), partitions: 1, replicas: 3, in_sync: 3, leaderless: 0 };
        let settings = |policy: &str| Settings::new([("cleanup.policy".to_owned(), policy.to_owned())]);
        let (compact, delete) = (settings("compact"), settings("delete"));
        let there = |settings, read| Found::Topic { topic: &topic, settings, read };
        let (forbidden, away) = (error(true), error(false));
        let cases: [(Found<'_>, &[Outcome]); 7] = [
            (Found::Nothing { may_be_made: Ok(()) }, &[Note]),
            (Found::Nothing { may_be_made: Err(error(true)) }, &[Warning]),
            (there(Some(&compact), Ok(())), &[Fine]),
            (there(Some(&delete), Ok(())), &[Warning]),
            (there(None, Ok(())), &[Fine]),
            (there(None, Err(&forbidden)), &[Warning]),
            (there(None, Err(&away)), &[Skipped]),
        ];
        for (found, expected) in cases {
            let checks = position_topic("t", &found);
            let outcomes: Vec<_> = checks.iter().map(|check| check.outcome).collect();
            assert_eq!(outcomes, expected, "{found:?}");
            assert!(
                checks.iter().all(|check| check.outcome != Warning || check.cure.is_some()),
                "{checks:?}"
            );
        }
    }

    #[test]
    fn a_slot_that_was_moved_or_dropped_is_told_before_the_start() {
        let kept = |phase| KeptPosition { phase, lsn: Lsn::new(100) };
        let at = |lsn| SlotFacts { confirmed_flush_lsn: Some(Lsn::new(lsn)), ..facts() };
        let held = SlotFacts { active_pid: Some(7), ..at(200) };
        let cases = [
            (Phase::Streaming, Some(at(100)), false, Some(Fine)),
            (Phase::Streaming, Some(at(101)), false, Some(Failure)),
            (Phase::Streaming, Some(at(101)), true, Some(Note)),
            (Phase::Streaming, Some(held), false, None),
            (Phase::Streaming, None, false, Some(Failure)),
            (Phase::Dropped, None, false, None),
            (Phase::Snapshot, Some(at(200)), false, None),
        ];
        for (phase, slot, explained, expected) in cases {
            let check = slot_position(&options(false), &kept(phase), slot.as_ref(), explained);
            assert_eq!(check.map(|check| check.outcome), expected, "{phase:?} {slot:?}");
        }
    }
}
