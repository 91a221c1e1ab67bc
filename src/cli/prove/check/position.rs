//! The topic of the relay's stored position, and the consequences of the position for the slot.

use super::codes;
use super::postgres::FoundSlot;
use super::report::Check;
use super::topics::leaderless;
use crate::error::{Class, Diagnose as _};
use crate::kafka::{Error, Settings, Topic, tool_lines};
use crate::postgres::SlotOptions;
use crate::relay::{self, FIRST_START, NextStart, Phase, RowsAtStart, StartStep, StoredPosition};
use crate::wal::Lsn;

/// The state of the topic.
#[derive(Debug)]
pub(super) enum Found<'f> {
    /// The topic does not exist, or may not be seen. `may_be_made` is an error if outboxd may not create it.
    Nothing { may_be_made: Result<(), Error> },
    /// The topic exists. `read` is an error if outboxd may not read it.
    Topic { topic: &'f Topic, settings: Option<&'f Settings>, read: Result<(), &'f relay::Error> },
}

/// Returns the checks of the topic. If its brokers lose it, no event is lost, but a start detects fewer
/// problems.
pub(super) fn position_topic(name: &str, found: &Found<'_>) -> Vec<Check> {
    let code = codes::POSITION_TOPIC;
    let (topic, settings) = match found {
        Found::Nothing { may_be_made: Ok(()) } => {
            let title =
                format!("topic {name:?} of the positions does not exist yet; run makes it, compacted");
            return vec![Check::note(code, title)];
        }
        Found::Nothing { may_be_made: Err(error) } => return vec![not_kept(error)],
        Found::Topic { read: Err(relay::Error::Kafka(error)), .. } => return vec![not_kept(error)],
        // A start refuses this state.
        Found::Topic { read: Err(error), .. } => return vec![Check::error(code, *error)],
        Found::Topic { topic, settings, read: Ok(()) } => (topic, settings),
    };
    let policy = settings.and_then(|settings| settings.get("cleanup.policy"));
    let mut checks = vec![match policy {
        Some("compact") | None => Check::ok(code, format!("topic {name:?} stores the position")),
        Some(policy) => {
            let title =
                format!("topic {name:?} forgets the position after its retention: cleanup.policy={policy}");
            Check::warning(code, title).fix(tool_lines::set_property(name, "cleanup.policy=compact"))
        }
    }];
    checks.extend(leaderless(topic));
    checks
}

fn not_kept(error: &Error) -> Check {
    let code = codes::POSITION_TOPIC;
    if error.class() != Class::Definite {
        return Check::skipped(code, format!("cannot check the topic of positions: {error}"));
    }
    let check = Check::warning(code, error.to_string()).detail(
        "outboxd runs without a position: a start does not notice a slot that was moved, dropped or made again meanwhile",
    );
    match error.fix() {
        Some(fix) => check.fix(fix),
        None => check,
    }
}

/// The configuration of a start whose slot is at another position.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConfiguredStart {
    /// True if offsets are stored. Debezium may have used the slot in between, which its offset shows.
    pub(super) stored_offset: bool,
    /// `outboxd.position.accept`
    pub(super) accept: Option<Lsn>,
    pub(super) rows: RowsAtStart,
    /// True if `offset.mismatch.strategy` lets a start continue from a slot that was moved ahead.
    pub(super) trusts_slot: bool,
}

/// Makes the check of a slot that exists although no position records that it was streamed from.
pub(super) fn unused_slot(next: &NextStart) -> Option<Check> {
    matches!(next.step, StartStep::SnapshotBeside | StartStep::SnapshotAgain).then(|| {
        Check::note(codes::SLOT_POSITION, "the slot exists, and nothing shows that it was streamed from")
            .detail(format!("{}; snapshot.mode=no_data leaves them out", next.summary()))
    })
}

/// Reports whether no client reads the slot and it is not lost; otherwise another check covers the next
/// start.
pub(super) fn is_free(slot: &FoundSlot) -> bool {
    slot.facts.as_ref().is_none_or(|slot| slot.active_pid.is_none() && slot.invalidation().is_none())
}

/// Compares a slot that no client reads with the position.
pub(super) fn slot_position(
    options: &SlotOptions,
    position: &StoredPosition,
    FoundSlot { facts: slot, database }: &FoundSlot,
    told: ConfiguredStart,
) -> Option<Check> {
    let (code, slot) = (codes::SLOT_POSITION, slot.as_ref());
    if position.is_of_dropped(*database) {
        let title = "the database was created again since outboxd last ran";
        return Some(Check::warning(code, title).detail(format!("the next start: {FIRST_START}")));
    }
    let (kept, confirmed) = (position.lsn, slot.map(|slot| slot.confirmed_flush_lsn.unwrap_or_default()));
    if position.phase != Phase::Streaming || slot.is_some_and(|slot| slot.active_pid.is_some()) {
        return None;
    }
    let acceptable = position.acceptable(confirmed);
    let is_accepted = told.accept.is_some() && told.accept == acceptable;
    if let Some(stop) = position.stop(confirmed, told.accept, told.rows) {
        return Some(Check::error(code, &stop));
    }
    Some(match confirmed {
        Some(confirmed) if confirmed <= kept => Check::ok(
            code,
            format!("the slot is at outboxd's position {kept}, or before it"),
        ),
        Some(confirmed) if told.stored_offset => {
            Check::note(code, format!("the slot is at {confirmed}, beyond outboxd's position {kept}"))
                .detail(
                    "this is right only if Debezium has read from the slot since; the stored offset \
                         then shows it",
                )
        }
        _ if is_accepted => Check::warning(
            code,
            format!("the slot is not at outboxd's position {kept}, and that is accepted"),
        )
        .detail("the next start begins as the first: rows that were written in between are not searched for"),
        Some(confirmed) if told.trusts_slot => Check::warning(
            code,
            format!("the slot is at {confirmed}, beyond outboxd's position {kept}, and offset.mismatch.strategy trusts it"),
        )
        .detail("the next start continues from there: rows that were written in between are not sent"),
        Some(confirmed) => Check::error(code, &options.moved_while_away(kept, confirmed, None, acceptable)),
        None => Check::error(code, &options.vanished_while_away(Some(kept), None, acceptable)),
    })
}

/// Returns the warnings about tables whose rows may be missing in the stream.
pub(super) fn suspicions(position: &StoredPosition, slot: &FoundSlot) -> Vec<Check> {
    let is_ours = position.phase == Phase::Streaming && !position.is_of_dropped(slot.database);
    let warnings = position.suspicions.iter().filter(|_| is_ours);
    warnings.map(|warning| Check::warning(codes::SLOT_POSITION, warning.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::report::Outcome::{self, Failure, Note, Ok as Fine, Skipped, Warning};
    use super::super::slot::tests::{facts, options};
    use super::*;
    use crate::kafka::TopicFault;
    use crate::postgres::SlotFacts;
    use crate::relay::RecordError;
    use crate::wal::Oid;

    fn error(fault: TopicFault) -> Error {
        let (topic, reason) = ("positions".to_owned(), "why".to_owned());
        Error::PositionTopic { doing: "read", topic, reason, fault }
    }

    #[test]
    fn what_prevents_storing_a_position_is_reported_with_its_fix() {
        let topic = Topic { name: "t".to_owned(), partitions: 1, replicas: 3, in_sync: 3, leaderless: 0 };
        let settings = |policy: &str| Settings::new([("cleanup.policy".to_owned(), policy.to_owned())]);
        let (compact, delete) = (settings("compact"), settings("delete"));
        let there = |settings, read| Found::Topic { topic: &topic, settings, read };
        let [forbidden, away] =
            [TopicFault::Refused, TopicFault::Passing].map(|fault| relay::Error::from(error(fault)));
        let later = relay::Error::NoPosition {
            topic: "t".to_owned(),
            key: "k".to_owned(),
            source: RecordError::Version(9),
        };
        let cases: [(Found<'_>, &[Outcome]); 8] = [
            (Found::Nothing { may_be_made: Ok(()) }, &[Note]),
            (Found::Nothing { may_be_made: Err(error(TopicFault::Refused)) }, &[Warning]),
            (there(Some(&compact), Ok(())), &[Fine]),
            (there(Some(&delete), Ok(())), &[Warning]),
            (there(None, Ok(())), &[Fine]),
            (there(None, Err(&forbidden)), &[Warning]),
            (there(None, Err(&away)), &[Skipped]),
            (there(None, Err(&later)), &[Failure]),
        ];
        for (found, expected) in cases {
            let checks = position_topic("t", &found);
            let outcomes: Vec<_> = checks.iter().map(|check| check.outcome).collect();
            assert_eq!(outcomes, expected, "{found:?}");
            assert!(checks.iter().all(|check| check.outcome != Warning || check.fix.is_some()), "{checks:?}");
        }
    }

    #[test]
    fn a_slot_that_was_moved_or_dropped_is_reported_before_the_start() {
        let kept = |phase| StoredPosition::of(phase, Lsn::new(100), vec![Lsn::new(300)], Oid(5));
        let at = |lsn| SlotFacts { confirmed_flush_lsn: Some(Lsn::new(lsn)), ..facts() };
        let held = SlotFacts { active_pid: Some(7), ..at(200) };
        let (nothing, stored) = (
            ConfiguredStart {
                stored_offset: false,
                accept: None,
                rows: RowsAtStart::None,
                trusts_slot: false,
            },
            ConfiguredStart {
                stored_offset: true,
                accept: None,
                rows: RowsAtStart::None,
                trusts_slot: false,
            },
        );
        let accept = |lsn| ConfiguredStart { accept: Some(Lsn::new(lsn)), ..nothing };
        let cases = [
            (Phase::Streaming, Some(at(100)), nothing, Some(Fine)),
            (Phase::Streaming, Some(at(101)), nothing, Some(Failure)),
            (Phase::Streaming, Some(at(101)), stored, Some(Note)),
            (Phase::Streaming, Some(at(101)), accept(101), Some(Warning)),
            (
                Phase::Streaming,
                Some(at(101)),
                ConfiguredStart { trusts_slot: true, ..nothing },
                Some(Warning),
            ),
            (Phase::Streaming, Some(at(101)), accept(102), Some(Failure)),
            (Phase::Streaming, Some(at(300)), accept(300), Some(Failure)),
            (Phase::Streaming, Some(held), nothing, None),
            (Phase::Streaming, None, nothing, Some(Failure)),
            (Phase::Streaming, None, accept(100), Some(Warning)),
            (Phase::Dropped, None, nothing, None),
            (Phase::Snapshot, Some(at(200)), nothing, None),
        ];
        for (phase, slot, told, expected) in cases {
            let slot = FoundSlot { facts: slot, database: Oid(5) };
            let check = slot_position(&options(false), &kept(phase), &slot, told);
            assert_eq!(check.map(|check| check.outcome), expected, "{phase:?} {slot:?}");
            let anew = FoundSlot { database: Oid(6), ..slot };
            let check = slot_position(&options(false), &kept(phase), &anew, told);
            assert_eq!(check.map(|check| check.outcome), Some(Warning), "{phase:?} {anew:?}");
        }
    }

    #[test]
    fn rows_that_may_be_missing_are_reported_until_they_are_settled() {
        let mut kept = StoredPosition::of(Phase::Streaming, Lsn::new(100), vec![], Oid(5));
        kept.suspicions = vec!["table a may lack rows".to_owned()];
        let outcomes = |kept: &StoredPosition, database| {
            let checks = suspicions(kept, &FoundSlot { facts: Some(facts()), database });
            checks.into_iter().map(|check| check.outcome).collect::<Vec<_>>()
        };
        assert_eq!(outcomes(&kept, Oid(5)), [Warning]);
        assert_eq!(outcomes(&kept, Oid(6)), [], "the database is another one");
        kept.phase = Phase::Dropped;
        assert_eq!(outcomes(&kept, Oid(5)), []);
    }

    #[test]
    fn a_stop_that_waits_for_a_person_is_reported_before_the_start() {
        let kept = StoredPosition::of(Phase::Streaming, Lsn::new(100), vec![], Oid(5));
        let kept = kept.with_stop("rows are missing", "send them");
        let facts = SlotFacts { confirmed_flush_lsn: Some(Lsn::new(100)), ..facts() };
        let slot = FoundSlot { facts: Some(facts), database: Oid(5) };
        let nothing = ConfiguredStart {
            stored_offset: false,
            accept: None,
            rows: RowsAtStart::None,
            trusts_slot: false,
        };
        let judged = |told| slot_position(&options(false), &kept, &slot, told).unwrap();
        let check = judged(nothing);
        assert_eq!(check.outcome, Failure, "{check:?}");
        assert!(
            check.fix.as_deref().unwrap_or_default().contains("outboxd.position.accept=0/64"),
            "{check:?}"
        );
        assert_eq!(judged(ConfiguredStart { rows: RowsAtStart::All, ..nothing }).outcome, Fine);
        let partial = judged(ConfiguredStart { rows: RowsAtStart::Some, ..nothing });
        assert!(partial.fix.unwrap().starts_with("the snapshot leaves rows out"), "the fix of the relay");
        assert_eq!(judged(ConfiguredStart { accept: Some(Lsn::new(100)), ..nothing }).outcome, Fine);
    }
}
