//! The bodies of the probes.

use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::telemetry::{Component, Condition, NotReady, Phase, Readiness, SlotReport, Snapshot};

/// A probe's answer: whether it is good, and its body.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Health {
    pub(super) up: bool,
    pub(super) body: Value,
}

/// Returns the health of the loop, which is whether it turns. `name` is the name of the one check.
pub(super) fn live(state: &Snapshot, name: &str, now: Instant) -> Health {
    let up = state.is_alive(now);
    health(up, vec![check(name, up, Map::new())])
}

/// Returns whether the relay has begun its work once.
pub(super) fn started(state: &Snapshot) -> Health {
    let mut data = Map::new();
    data.insert("phase".to_owned(), state.phase.name().into());
    health(state.started, vec![check("relay", state.started, data)])
}

/// Returns whether the relay does its work, and the reasons against it.
pub(super) fn ready(state: &Snapshot, now: Instant) -> Health {
    let readiness = state.readiness(now);
    let mut checks = vec![relay_check(state, &readiness)];
    // Without a schema registry in the configuration it is not mentioned.
    let needed = |component: &Component| {
        *component != Component::Registry || *state.condition(*component) != Condition::Unknown
    };
    let components = Component::ALL.into_iter().filter(needed);
    checks.extend(components.map(|component| component_check(component, state, &readiness)));
    let mut health = health(readiness.ready, checks);
    let warnings: Vec<_> = state.all_warnings(now).collect();
    if let (Some(body), false) = (health.body.as_object_mut(), warnings.is_empty()) {
        body.insert("warnings".to_owned(), warnings.into());
    }
    health
}

/// Returns the answer of Kafka Connect's worker under `/health`, with its status code.
pub(super) fn connect_worker(state: &Snapshot, now: Instant) -> (u16, Value) {
    let (code, status, message) = if !state.started {
        (503, "starting", "Worker is still starting up.")
    } else if state.readiness(now).ready {
        (200, "healthy", "Worker has completed startup and is ready to handle requests.")
    } else {
        let message = "Worker was unable to handle this request and may be unable to handle other requests.";
        (500, "unhealthy", message)
    };
    (code, json!({ "status": status, "message": message }))
}

fn relay_check(state: &Snapshot, readiness: &Readiness) -> Value {
    let mut data = Map::new();
    data.insert("phase".to_owned(), state.phase.name().into());
    data.insert("role".to_owned(), readiness.role.name().into());
    if let Phase::StandingBy(holder) = &state.phase {
        data.insert("holder".to_owned(), holder.to_string().into());
    }
    let up = add_reasons(&mut data, readiness, None);
    check("relay", up, data)
}

fn component_check(component: Component, state: &Snapshot, readiness: &Readiness) -> Value {
    let mut data = Map::new();
    let up = add_reasons(&mut data, readiness, Some(component));
    if component == Component::Slot {
        data.insert("confirmed".to_owned(), state.progress.confirmed.to_string().into());
        data.insert("lagBytes".to_owned(), state.progress.lag_bytes().into());
        if let Some(report) = &state.slot_report {
            add_report(&mut data, report);
        }
    }
    check(component.name(), up, data)
}

/// Adds the server's facts of the slot; without a limit there is no `safeWalBytes`.
fn add_report(data: &mut Map<String, Value>, report: &SlotReport) {
    data.insert("retainedBytes".to_owned(), report.retained_bytes.into());
    if let Some(bytes) = report.safe_wal_bytes {
        data.insert("safeWalBytes".to_owned(), bytes.into());
    }
    if let Some(status) = report.wal_status {
        data.insert("walStatus".to_owned(), status.name().into());
    }
    data.insert("danger".to_owned(), report.danger.name().into());
}

/// Adds what speaks against one component, or against the relay itself. True when nothing does.
fn add_reasons(data: &mut Map<String, Value>, readiness: &Readiness, about: Option<Component>) -> bool {
    let reasons = readiness.reasons.iter().filter(|reason| reason.component() == about);
    let reasons: Vec<String> = reasons.map(NotReady::to_string).collect();
    if reasons.is_empty() {
        return true;
    }
    data.insert("reason".to_owned(), reasons.join("; ").into());
    false
}

fn check(name: &str, up: bool, data: Map<String, Value>) -> Value {
    let mut check = json!({ "name": name, "status": status(up) });
    if let (Some(check), false) = (check.as_object_mut(), data.is_empty()) {
        check.insert("data".to_owned(), data.into());
    }
    check
}

fn health(up: bool, checks: Vec<Value>) -> Health {
    Health { up, body: json!({ "status": status(up), "checks": checks }) }
}

const fn status(up: bool) -> &'static str {
    if up { "UP" } else { "DOWN" }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::telemetry::{Holder, Limits, Progress, SlotDanger, Status, WalStatus};

    #[test]
    fn live_is_what_debezium_server_says() {
        let now = Instant::now();
        let state = Status::streaming(now).snapshot();
        let Health { up, body } = live(&state, "debezium", now);
        assert!(up);
        assert_eq!(body.to_string(), r#"{"status":"UP","checks":[{"name":"debezium","status":"UP"}]}"#);
        let Health { up, body } = live(&state, "outboxd", now + Duration::from_secs(31));
        assert!(!up);
        assert_eq!(body.to_string(), r#"{"status":"DOWN","checks":[{"name":"outboxd","status":"DOWN"}]}"#);
    }

    #[test]
    fn ready_names_what_is_down() {
        let now = Instant::now();
        let status = Status::streaming(now);
        assert!(ready(&status.snapshot(), now).up);
        status.down(Component::Kafka, "no broker answers", now);
        let Health { up, body } = ready(&status.snapshot(), now + Duration::from_secs(2));
        assert!(!up);
        let expected = json!({
            "status": "DOWN",
            "checks": [
                { "name": "relay", "status": "UP", "data": { "phase": "streaming", "role": "active" } },
                { "name": "postgres", "status": "UP" },
                { "name": "slot", "status": "UP", "data": { "confirmed": "0/0", "lagBytes": 0 } },
                {
                    "name": "kafka",
                    "status": "DOWN",
                    "data": { "reason": "kafka has been down for 2 s: no broker answers" },
                },
            ],
        });
        assert_eq!(body, expected);
    }

    #[test]
    fn the_schema_registry_is_reported_once_it_was_asked() {
        let now = Instant::now();
        let status = Status::streaming(now);
        status.down(Component::Registry, "refused", now);
        let Health { up, body } = ready(&status.snapshot(), now);
        assert!(!up);
        let expected = json!({
            "name": "registry",
            "status": "DOWN",
            "data": { "reason": "registry has been down for 0 s: refused" },
        });
        assert_eq!(body["checks"][4], expected);
    }

    #[test]
    fn what_the_server_says_of_the_slot_is_shown_and_a_warning_leaves_it_ready() {
        let now = Instant::now();
        let status = Status::streaming(now);
        status.slot(
            SlotReport {
                retained_bytes: 80,
                safe_wal_bytes: Some(20),
                wal_status: Some(WalStatus::Extended),
                danger: SlotDanger::Alarm,
            },
            None,
        );
        let Health { up, body } = ready(&status.snapshot(), now);
        assert!(up);
        let expected = json!({
            "confirmed": "0/0",
            "lagBytes": 0,
            "retainedBytes": 80,
            "safeWalBytes": 20,
            "walStatus": "extended",
            "danger": "alarm",
        });
        assert_eq!(body["checks"][2]["data"], expected);
    }

    #[test]
    fn warnings_are_shown_once_and_leave_it_ready() {
        let now = Instant::now();
        let status = Status::streaming(now);
        assert!(ready(&status.snapshot(), now).body.get("warnings").is_none());
        assert!(status.warn("look at this".to_owned()) && !status.warn("look at this".to_owned()));
        let Health { up, body } = ready(&status.snapshot(), now);
        assert!(up);
        assert_eq!(body["warnings"], json!(["look at this"]));
        let more = (0..2 * crate::telemetry::WARNINGS_MAX).filter(|n| status.warn(n.to_string())).count();
        assert_eq!(more, crate::telemetry::WARNINGS_MAX - 1);
    }

    #[test]
    fn a_position_that_is_not_kept_is_a_warning_until_it_is() {
        let now = Instant::now();
        let status = Status::streaming(now);
        let waits = |position_waits| status.tick(Progress { position_waits, ..Progress::default() }, now);
        let warnings = |after| {
            let Health { up, body } = ready(&status.snapshot(), now + after);
            assert!(up);
            body.get("warnings").map(ToString::to_string).unwrap_or_default()
        };
        waits(Some(now));
        assert_eq!(warnings(Duration::from_millis(9_999)), "");
        assert!(warnings(Duration::from_secs(12)).contains("for 12 s"));
        waits(None);
        assert_eq!(warnings(Duration::from_secs(12)), "");
        waits(Some(now));
        status.enter(Phase::StandingBy(Holder { pid: 42, application: "outboxd".into() }));
        assert_eq!(warnings(Duration::from_secs(12)), "", "it is the holder's now");
    }

    #[test]
    fn a_standby_says_who_has_the_slot() {
        let now = Instant::now();
        let status = Status::new(Limits::default(), now);
        status.up(Component::Postgres, now);
        status.enter(Phase::StandingBy(Holder { pid: 42, application: "outboxd".into() }));
        let Health { up, body } = ready(&status.snapshot(), now);
        assert!(up);
        let relay = json!({ "phase": "standing by", "role": "standby", "holder": "pid 42 (outboxd)" });
        assert_eq!(body["checks"][0]["data"], relay);
    }

    #[test]
    fn connect_worker_starts_works_and_fails() {
        let now = Instant::now();
        let new = Status::new(Limits::default(), now);
        assert_eq!(connect_worker(&new.snapshot(), now).0, 503);
        assert!(!started(&new.snapshot()).up);
        let status = Status::streaming(now);
        assert_eq!(connect_worker(&status.snapshot(), now).0, 200);
        status.enter(Phase::Connecting);
        assert_eq!(connect_worker(&status.snapshot(), now).0, 500);
        assert!(started(&status.snapshot()).up);
    }
}
