//! Problems and their fixes.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::fix_names;
use super::runway::Runway;
use super::state::Level;
use crate::error::in_commands;
use crate::telemetry::metrics::SlotDanger;
use crate::telemetry::status::{Component, Condition, NotReady, Phase, Snapshot};

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Problem {
    pub(crate) level: Level,
    pub(crate) what: String,
    /// Fix.
    #[serde(flatten, with = "fix_names")]
    pub(crate) fix: Option<String>,
}

/// Returns the problems, the worst first, and of equal ones those with a fix first.
pub(super) fn problems(state: &Snapshot, now: Instant) -> Vec<Problem> {
    let mut reasons = state.readiness(now).reasons;
    reasons.sort_by_key(|reason| !(state.is_slot_lost() && reason.component() == Some(Component::Slot)));
    let mut problems: Vec<_> = reasons.iter().map(|reason| unready(reason, state)).collect();
    let of_slot = slot(state);
    let at = if state.is_slot_lost() { 0 } else { problems.len() };
    drop(problems.splice(at..at, of_slot));
    problems.extend(state.kafka_silence(now).map(|age| {
        let what = format!("Kafka has acknowledged nothing for {} s", age.as_secs());
        watch(what, crate::telemetry::UNACKNOWLEDGED_FIX)
    }));
    problems.extend(other_tables(state));
    problems.extend(state.catalog_warnings(now).map(|(what, fix)| watch(what, &fix)));
    problems.extend(state.late_position(now).map(|what| watch(what, LATE_POSITION)));
    problems.extend(state.warnings.iter().map(|warning| Problem {
        level: Level::Watch,
        what: warning.clone(),
        fix: None,
    }));
    worst_first(problems)
}

/// Adds a slot that lives for minutes only. While events flow that is no problem: then the slot moves on.
pub(super) fn with_runway(mut problems: Vec<Problem>, runway: Runway, state: &Snapshot) -> Vec<Problem> {
    let is_held_up = problems.iter().any(|problem| problem.level == Level::Wrong);
    if is_held_up && runway.is_urgent() && runway != Runway::Over {
        let what =
            format!("the slot is lost in {} at the present rate, with every unsent event", runway.words().0);
        let fix = state.slot_fix.clone().unwrap_or_else(|| MAKE_ROOM.to_owned());
        problems.insert(0, Problem { level: Level::Wrong, what, fix: Some(fix) });
    }
    worst_first(problems)
}

/// Sorts by severity, and names the configuration in the commands; a problem that only follows from another one has no fix of its own and comes behind it.
fn worst_first(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| (std::cmp::Reverse(problem.level), problem.fix.is_none()));
    problems.into_iter().map(|problem| Problem { fix: problem.fix.map(in_commands), ..problem }).collect()
}

const MAKE_ROOM: &str =
    "to gain time: ALTER SYSTEM SET max_slot_wal_keep_size = '…'; SELECT pg_reload_conf();";
const OTHER_TABLES: &str = "give both the same tables, or this one a slot of its own: slot.name, publication.name, name. The other instance no \
                            longer sends rows that it has skipped: outboxd verify -c FILE lists them";
const LATE_POSITION: &str =
    "check that the brokers accept records; the log has the reason for which they refuse this one";
const WAITS: &str = "if it lasts, outboxd check -c FILE names what is missing; outboxd retries by itself";
const STALLED: &str =
    "/livez fails: what supervises the process should restart it. If it comes back, report it with the log";

fn watch(what: String, fix: &str) -> Problem {
    Problem { level: Level::Watch, what, fix: Some(fix.to_owned()) }
}

fn other_tables(state: &Snapshot) -> Option<Problem> {
    let tables = Some(&state.holder_lacks).filter(|tables| !tables.is_empty())?.join(", ");
    Some(watch(
        format!("the outboxd that has the slot does not capture {tables}: it skips the rows"),
        OTHER_TABLES,
    ))
}

fn unready(reason: &NotReady, state: &Snapshot) -> Problem {
    let fix = match reason {
        NotReady::Down { component, .. } => match state.condition(*component) {
            Condition::Down { fix: Some(fix), .. } => Some(fix.clone()),
            _ => Some(WAITS.to_owned()),
        },
        NotReady::Stalled(_) => Some(STALLED.to_owned()),
        NotReady::Unacknowledged(_) => Some(crate::telemetry::UNACKNOWLEDGED_FIX.to_owned()),
        NotReady::Phase(_) | NotReady::Untried(_) => None,
    };
    Problem { level: level(reason, state), what: reason.to_string(), fix }
}

/// Returns the level of a reason. A start is no fault.
fn level(reason: &NotReady, state: &Snapshot) -> Level {
    let starting = state.phase == Phase::Connecting && !state.started;
    match reason {
        NotReady::Untried(_) => Level::Watch,
        NotReady::Phase(Phase::Draining | Phase::Paused | Phase::Stopped) => Level::Watch,
        NotReady::Phase(_) if starting => Level::Watch,
        _ => Level::Wrong,
    }
}

fn slot(state: &Snapshot) -> Option<Problem> {
    let report = state.slot_report?;
    let (level, what) = match report.danger {
        SlotDanger::None => return None,
        SlotDanger::Watch => (Level::Watch, "the slot retains much WAL"),
        SlotDanger::Alarm => (Level::Wrong, "the slot retains most of the allowed WAL"),
        SlotDanger::Unreserved => {
            (Level::Wrong, "the slot may be lost at the next checkpoint, with every unsent event")
        }
        SlotDanger::Lost => (Level::Wrong, "the slot is lost"),
    };
    // The same in other words, when the slot does not work any more.
    let is_told = matches!(state.condition(Component::Slot), Condition::Down { fix: Some(_), .. });
    (!is_told).then(|| Problem { level, what: what.to_owned(), fix: state.slot_fix.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::SlotReport;
    use crate::telemetry::status::{CatalogLook, Limits, Status, Unpublished};

    #[test]
    fn a_fix_is_written_under_both_of_its_names_and_read_under_any() {
        let fix = |text: Option<&str>| Problem {
            level: Level::Watch,
            what: "w".to_owned(),
            fix: text.map(str::to_owned),
        };
        let written = serde_json::to_value(fix(Some("f"))).unwrap();
        assert_eq!((&written["fix"], &written["cure"]), (&"f".into(), &"f".into()));
        for (names, expected) in
            [(&["fix", "cure"][..], Some("f")), (&["fix"], Some("f")), (&["cure"], Some("f")), (&[], None)]
        {
            let mut said = written.clone();
            said.as_object_mut().unwrap().retain(|name, _| {
                ["level", "what"].contains(&name.as_str()) || names.contains(&name.as_str())
            });
            assert_eq!(serde_json::from_value::<Problem>(said).unwrap(), fix(expected), "{names:?}");
        }
    }

    #[test]
    fn a_relay_that_is_well_has_none() {
        let now = Instant::now();
        assert_eq!(problems(&Status::streaming(now).snapshot(), now), []);
    }

    #[test]
    fn silence_of_kafka_is_reported_after_a_few_seconds_and_once() {
        use std::time::Duration;

        use crate::telemetry::status::Progress;
        let start = Instant::now();
        let status = Status::streaming(start);
        let told = |seconds| {
            let now = start + Duration::from_secs(seconds);
            let (kafka_silent_since, oldest_unacknowledged) = (Some(start), Some(start));
            status.tick(Progress { kafka_silent_since, oldest_unacknowledged, ..Progress::default() }, now);
            let found = problems(&status.snapshot(), now);
            found.into_iter().map(|problem| (problem.level, problem.what)).collect::<Vec<_>>()
        };
        assert_eq!(told(4), []);
        assert_eq!(told(12), [(Level::Watch, "Kafka has acknowledged nothing for 12 s".to_owned())]);
        let late = "the oldest event has waited 61 s for its acknowledgement".to_owned();
        assert_eq!(told(61), [(Level::Wrong, late)]);
        status.down(Component::Kafka, "no broker answers", start);
        assert!(told(12).iter().all(|(_, what)| !what.contains("nothing")), "it is told already");
    }

    #[test]
    fn a_standby_for_a_relay_of_other_tables_is_not_well() {
        use crate::telemetry::status::Holder;
        let status = Status::streaming(Instant::now());
        status.enter(Phase::StandingBy(Holder { pid: 7, application: "outboxd".to_owned() }));
        status.holder_lacks(vec!["public.outbox".to_owned()]);
        let found = problems(&status.snapshot(), Instant::now());
        assert!(found.len() == 1 && found[0].level == Level::Watch, "{found:?}");
        assert!(found[0].what.contains("public.outbox"), "{found:?}");
        status.enter(Phase::Streaming);
        assert_eq!(problems(&status.snapshot(), Instant::now()), []);
    }

    #[test]
    fn new_tables_that_are_not_published_are_reported_with_the_statement() {
        let status = Status::streaming(Instant::now());
        let told = |tables: usize| {
            let tables: Vec<_> = (0..tables).map(|number| format!("\"public\".\"t{number}\"")).collect();
            status.unpublished(Unpublished { tables, ..Unpublished::none("p") });
            problems(&status.snapshot(), Instant::now())
        };
        let [one] = told(1).try_into().unwrap();
        let what =
            "new tables are captured and not in publication \"p\": no row of \"public\".\"t0\" is sent";
        assert_eq!((one.level, one.what.as_str()), (Level::Watch, what));
        assert!(one.fix.unwrap().starts_with("ALTER PUBLICATION \"p\" ADD TABLE \"public\".\"t0\"; "));
        assert!(told(7)[0].what.contains("\"public\".\"t4\" and 2 more"));
        assert_eq!(told(0), []);
        status.unpublished(Unpublished { unlogged: vec!["\"u\"".to_owned()], ..Unpublished::none("p") });
        let [unlogged] = problems(&status.snapshot(), Instant::now()).try_into().unwrap();
        assert!(unlogged.what.contains("no row of \"u\""), "{unlogged:?}");
        assert!(unlogged.fix.unwrap().starts_with("ALTER TABLE \"u\" SET LOGGED; "));
    }

    #[test]
    fn a_catalog_that_cannot_be_looked_at_is_reported_while_rows_stream() {
        let start = Instant::now();
        let status = Status::streaming(start);
        status.seen(CatalogLook::Publication, start);
        let late = start + std::time::Duration::from_secs(31);
        status.not_seen(CatalogLook::Publication, "permission denied", late);
        let found = problems(&status.snapshot(), late);
        let told =
            found.iter().find(|problem| problem.what.contains("could not be looked at for 31 s")).unwrap();
        assert!(told.fix.as_ref().unwrap().contains("permission denied"));
        status.enter(Phase::Connecting);
        assert!(problems(&status.snapshot(), late).iter().all(|problem| !problem.what.contains("looked at")));
    }

    #[test]
    fn the_worst_is_first_and_each_has_its_fix() {
        let now = Instant::now();
        let status = Status::streaming(now);
        status.warn("a table has another name".to_owned());
        let danger = SlotDanger::Alarm;
        let report = SlotReport { retained_bytes: 1, safe_wal_bytes: Some(1), wal_status: None, danger };
        status.slot(report, Some("ALTER SYSTEM …".to_owned()));
        status.down(Component::Kafka, "no broker answers", now);
        let found = problems(&status.snapshot(), now);
        let told: Vec<_> = found
            .iter()
            .map(|problem| (problem.level, problem.what.as_str(), problem.fix.as_deref()))
            .collect();
        let expected = [
            (Level::Wrong, "kafka has been down for 0 s: no broker answers", Some(WAITS)),
            (Level::Wrong, "the slot retains most of the allowed WAL", Some("ALTER SYSTEM …")),
            (Level::Watch, "a table has another name", None),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_lost_slot_comes_before_the_server_that_is_down() {
        let now = Instant::now();
        let status = Status::streaming(now);
        status.down(Component::Kafka, "no broker answers", now);
        let danger = SlotDanger::Lost;
        let report = SlotReport { retained_bytes: 1, safe_wal_bytes: None, wal_status: None, danger };
        status.slot(report, Some("outboxd move".to_owned()));
        let found = problems(&status.snapshot(), now);
        assert_eq!((found[0].what.as_str(), found.len()), ("the slot is lost", 2), "{found:?}");
    }

    #[test]
    fn a_position_that_is_late_because_a_server_is_down_is_not_blamed_on_kafka() {
        use std::time::Duration;

        use crate::telemetry::status::Progress;
        let start = Instant::now();
        let status = Status::streaming(start);
        status.tick(Progress { position_waits: Some(start), ..Progress::default() }, start);
        let now = start + Duration::from_secs(12);
        let is_told = || {
            let snapshot = status.snapshot();
            let found = problems(&snapshot, now);
            let warned = snapshot.all_warnings(now).any(|what| what.contains("position in Kafka"));
            let told = found.iter().any(|problem| problem.what.contains("position in Kafka"));
            assert_eq!(warned, told, "/readyz and the page say the same");
            told
        };
        assert!(is_told());
        status.down(Component::Postgres, "no server answers", start);
        assert!(!is_told());
    }

    #[test]
    fn a_runway_of_minutes_is_urgent_while_nothing_is_confirmed() {
        let now = Instant::now();
        let status = Status::streaming(now);
        let found = |runway| {
            let state = status.snapshot();
            with_runway(problems(&state, now), runway, &state)
        };
        let minute = Runway::Hours { hours: 0.0169 };
        assert_eq!(found(minute), []);
        status.down(Component::Kafka, "no broker answers", now);
        let told = found(minute);
        assert!(told[0].what.starts_with("the slot is lost in 1 min at the present rate"), "{told:?}");
        assert_eq!(found(Runway::Hours { hours: 3.0 }).len(), 1);
    }

    #[test]
    fn what_can_be_fixed_is_first() {
        let now = Instant::now();
        let status = Status::streaming(now);
        status.enter(Phase::Connecting);
        status.down(Component::Postgres, "no server answers", now);
        let found = problems(&status.snapshot(), now);
        let told: Vec<_> = found.iter().map(|problem| problem.what.as_str()).collect();
        assert_eq!(told, ["postgres has been down for 0 s: no server answers", "the relay is connecting"]);
    }

    #[test]
    fn a_start_is_no_fault() {
        let now = Instant::now();
        let status = Status::new(Limits::default(), now);
        let found = problems(&status.snapshot(), now);
        assert!(!found.is_empty() && found.iter().all(|problem| problem.level == Level::Watch), "{found:?}");
    }
}
