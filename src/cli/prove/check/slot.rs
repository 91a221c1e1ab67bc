//! Consequences of the replication slot's state for a relay.

use super::catalog::OtherSlot;
use super::codes;
use super::report::Check;
use crate::postgres::{Error, SlotFacts, SlotHolder, SlotOptions};
use crate::relay::is_our_own;

/// PostgreSQL 17, the first version with failover slots.
const FAILOVER_VERSION_NUM: i32 = 170_000;

/// Size of the remaining WAL, in bytes, below which the slot may be lost at any time.
const SAFE_WAL_MIN_BYTES: i64 = 256 << 20;

/// Returns the checks of the slot, in the order of a start.
pub(super) fn slot(
    options: &SlotOptions,
    facts: Option<&SlotFacts>,
    database: &str,
    version_num: i32,
) -> Vec<Check> {
    let Some(facts) = facts else { return vec![to_be_made(options, version_num)] };
    let name = options.name.as_str();
    let mut checks = vec![Check::ok(codes::SLOT, format!("replication slot {name:?} exists"))];
    let idle = SlotFacts { active_pid: None, ..facts.clone() };
    match options.adopt(&idle, database) {
        Ok(slot) => {
            let title = format!("the stream begins at {} (confirmed_flush_lsn)", slot.confirmed_flush_lsn);
            checks.push(Check::ok(codes::SLOT_USABLE, title));
            checks.push(wal(name, facts));
            checks.extend(
                options
                    .lacks_failover(facts)
                    .map(|lacking| Check::warning(codes::SLOT_FAILOVER, lacking.problem).fix(lacking.fix)),
            );
        }
        Err(error) => checks.push(Check::error(codes::SLOT_USABLE, &error)),
    }
    if let Err(Error::SlotActive(holder)) = options.adopt(facts, database) {
        checks.push(held(holder));
    }
    checks
}

fn to_be_made(options: &SlotOptions, version_num: i32) -> Check {
    let name = options.name.as_str();
    if options.failover && version_num < FAILOVER_VERSION_NUM {
        return Check::failure(codes::SLOT, "slot.failover=true needs PostgreSQL 17 or later")
            .fix("remove slot.failover");
    }
    Check::ok(codes::SLOT, format!("replication slot {name:?} does not exist yet; run makes it"))
}

/// Makes the check of an active slot. Another instance of this outboxd is no error: the second one waits as a
/// standby.
fn held(holder: SlotHolder) -> Check {
    if is_our_own(&holder) {
        return Check::warning(codes::SLOT_FREE, format!("an outboxd is running: {holder}"))
            .detail("a second one waits as a standby until the first one ends");
    }
    Check::error(codes::SLOT_FREE, &Error::SlotActive(holder))
}

fn wal(name: &str, facts: &SlotFacts) -> Check {
    let kept = megabytes(facts.retained_bytes);
    let room = facts.safe_wal_bytes.map(|bytes| format!(", {} MB before it is lost", megabytes(bytes)));
    let room = room.unwrap_or_default();
    match facts.wal_status.as_deref() {
        Some(status @ "unreserved") => Check::warning(
            codes::SLOT_WAL,
            format!("replication slot {name:?} is about to be lost: wal_status is {status}, {kept} MB are kept"),
        )
        .detail("the next checkpoint may remove WAL that the slot still needs")
        .fix("start outboxd now, or raise the limit: ALTER SYSTEM SET max_slot_wal_keep_size = '…'; SELECT pg_reload_conf();"),
        Some(_) if facts.safe_wal_bytes.is_some_and(|bytes| bytes < SAFE_WAL_MIN_BYTES) => Check::warning(
            codes::SLOT_WAL,
            format!("replication slot {name:?} has little room: it keeps {kept} MB of WAL{room}"),
        )
        .fix("start outboxd, or raise the limit: ALTER SYSTEM SET max_slot_wal_keep_size = '…'; SELECT pg_reload_conf();"),
        status => {
            let status = status.unwrap_or("unknown");
            let idle = facts.inactive_since.as_ref().map(|since| format!("; not read since {since}"));
            let idle = idle.unwrap_or_default();
            Check::ok(codes::SLOT_WAL, format!("wal_status is {status}: the slot keeps {kept} MB of WAL{room}{idle}"))
        }
    }
}

/// Returns the checks of other slots, which do not prevent a start: a connector that was not stopped, or a
/// slot of a former name.
pub(super) fn others(slots: &[OtherSlot]) -> Vec<Check> {
    slots.iter().map(other).collect()
}

fn other(slot: &OtherSlot) -> Check {
    let OtherSlot { name, application, retained_bytes } = slot;
    match application {
        Some(application) => Check::note(
            codes::OTHER_SLOTS,
            format!("replication slot {name:?} of this database is read by {application:?}"),
        )
        .detail("if that is another connector for the same outbox, every event is sent twice"),
        None => Check::note(
            codes::OTHER_SLOTS,
            format!(
                "no client reads replication slot {name:?} of this database: it retains {} MB of WAL",
                megabytes(*retained_bytes)
            ),
        )
        .detail(
            "if slot.name was mistyped, this may be the slot that was meant; if it is not needed, drop it",
        ),
    }
}

const fn megabytes(bytes: i64) -> i64 {
    bytes >> 20
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::report::Outcome::{self, Failure, Ok, Warning};
    use super::*;
    use crate::postgres::{Peer, SlotName, SlotRecovery};
    use crate::wal::Lsn;

    pub(in super::super) fn options(failover: bool) -> SlotOptions {
        let name = SlotName::new("outbox").unwrap();
        let recovery = SlotRecovery::default();
        let stream_params = Vec::new();
        SlotOptions {
            name,
            drop_on_stop: false,
            failover,
            recovery,
            retry: None,
            stream_params,
            xmin_interval: None,
            peer: Peer::default(),
        }
    }

    pub(in super::super) fn facts() -> SlotFacts {
        SlotFacts {
            plugin: Some("pgoutput".to_owned()),
            database: Some("orders".to_owned()),
            active_pid: None,
            application: None,
            client: None,
            confirmed_flush_lsn: Some(Lsn::new(100)),
            restart_lsn: Some(Lsn::new(90)),
            wal_status: Some("reserved".to_owned()),
            safe_wal_bytes: None,
            retained_bytes: 10,
            server_lsn: Lsn::new(200),
            invalidation_reason: None,
            inactive_since: None,
            two_phase: false,
            failover: None,
        }
    }

    fn held_by(application: &str) -> SlotFacts {
        SlotFacts {
            active_pid: Some(42),
            application: Some(application.to_owned()),
            client: Some("127.0.0.1".to_owned()),
            ..facts()
        }
    }

    #[test]
    fn a_slot_without_the_failover_that_is_asked_for_is_warned_of() {
        let with = |failover| SlotFacts { failover, ..facts() };
        for (wanted, found, expected) in [
            (true, Some(false), true),
            (true, Some(true), false),
            (true, None, false),
            (false, Some(false), false),
        ] {
            let checks = slot(&options(wanted), Some(&with(found)), "orders", 180_000);
            let warned =
                checks.iter().any(|check| check.code == codes::SLOT_FAILOVER && check.outcome == Warning);
            assert_eq!(warned, expected, "{wanted} {found:?}");
        }
    }

    #[test]
    fn the_worst_of_a_slot_is_reported() {
        let status = |status: &str, safe| SlotFacts {
            wal_status: Some(status.to_owned()),
            safe_wal_bytes: safe,
            ..facts()
        };
        let cases: Vec<(SlotFacts, &str, Outcome, &str)> = vec![
            (facts(), "PG040", Ok, "exists"),
            (
                SlotFacts { plugin: Some("test_decoding".to_owned()), ..facts() },
                "PG041",
                Failure,
                "test_decoding",
            ),
            (SlotFacts { plugin: None, database: None, ..facts() }, "PG041", Failure, "physical"),
            (SlotFacts { database: Some("other".to_owned()), ..facts() }, "PG041", Failure, "\"other\""),
            (
                SlotFacts { confirmed_flush_lsn: Some(Lsn::new(300)), ..facts() },
                "PG041",
                Failure,
                "beyond the end",
            ),
            (status("lost", None), "PG041", Failure, "lost"),
            (status("unreserved", None), "PG043", Warning, "about to be lost"),
            (status("extended", Some(1 << 20)), "PG043", Warning, "little room"),
            (SlotFacts { two_phase: true, ..facts() }, "PG041", Failure, "two_phase"),
            (held_by("pg_recvlogical"), "PG042", Failure, "42 (pg_recvlogical at 127.0.0.1)"),
            (held_by("outboxd/outbox"), "PG042", Warning, "an outboxd is running"),
        ];
        for (facts, code, outcome, words) in cases {
            let checks = slot(&options(false), Some(&facts), "orders", 180_000);
            let worst = checks.iter().rev().max_by_key(|check| check.outcome).unwrap();
            let worst = checks.iter().find(|check| check.outcome == worst.outcome).unwrap();
            assert_eq!((worst.code.as_str(), worst.outcome), (code, outcome), "{worst:?}");
            assert!(worst.title.contains(words), "{worst:?}");
        }
    }

    #[test]
    fn a_slot_that_is_not_there_is_made() {
        for (failover, version_num, outcome) in
            [(false, 150_000, Ok), (true, 160_000, Failure), (true, 170_000, Ok)]
        {
            assert_eq!(slot(&options(failover), None, "orders", version_num)[0].outcome, outcome);
        }
    }
}
