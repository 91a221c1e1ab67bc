//! Consequences of the server's settings for a relay.

use std::time::Duration;

use super::codes;
use super::report::Check;
use crate::postgres::ServerFacts;
use crate::relay::{OLDEST_VERSION_NUM, check_server};

/// Difference of the clocks, in seconds, above which timestamps of events are misleading.
const CLOCK_DIFFERENCE_MAX_S: f64 = 5.0;

/// Shortest timeout of a walsender, in milliseconds; a shorter one ends the stream at every short pause.
const WAL_SENDER_TIMEOUT_MIN_MS: i64 = 3_000;

/// Returns the checks of a relay's requirements. `read_only` is true for a relay that writes nothing.
pub(super) fn requirements(facts: &ServerFacts, read_only: bool) -> Vec<Check> {
    vec![version(facts.version_num), primary(facts, read_only), wal_level(facts), encoding(&facts.encoding)]
}

/// Returns the checks of the settings that limit a relay's downtime.
pub(super) fn patience(facts: &ServerFacts, status_interval: Duration) -> Vec<Check> {
    let mut checks = vec![
        slot_wal_keep(facts.slot_wal_keep_mb),
        wal_sender_timeout(facts.wal_sender_timeout_ms, status_interval),
    ];
    checks.extend(idle_slot_timeout(facts.idle_slot_timeout_s));
    checks
}

fn version(version_num: i32) -> Check {
    let (major, minor) = (version_num / 10_000, version_num % 10_000);
    if version_num < OLDEST_VERSION_NUM {
        let title = format!("PostgreSQL {major} is too old: 14 is the oldest supported");
        return Check::failure(codes::VERSION, title).fix("upgrade the server");
    }
    Check::ok(codes::VERSION, format!("PostgreSQL {major}.{minor} is supported"))
}

/// Makes the check of the server's role, primary or standby, by the rules of a start.
fn primary(facts: &ServerFacts, read_only: bool) -> Check {
    let title = match facts.in_recovery {
        false => "the server is a primary",
        true => "the server is a standby, and read.only=true: it is read",
    };
    // Other requirements have checks of their own.
    let fit = ServerFacts { wal_level: "logical".to_owned(), ..facts.clone() };
    match check_server(&fit, read_only) {
        Err(error) if facts.in_recovery && facts.version_num >= OLDEST_VERSION_NUM => {
            Check::error(codes::PRIMARY, &error)
        }
        _ => Check::ok(codes::PRIMARY, title),
    }
}

fn wal_level(facts: &ServerFacts) -> Check {
    let level = &facts.wal_level;
    if facts.decodes_on_demand() {
        return Check::ok(
            codes::WAL_LEVEL,
            "wal_level is replica: PostgreSQL turns logical decoding on with the first slot",
        );
    }
    if facts.can_decode() {
        return Check::ok(codes::WAL_LEVEL, "wal_level is logical");
    }
    Check::failure(codes::WAL_LEVEL, format!("wal_level is {level:?}, logical decoding needs \"logical\"")).fix(
        "as a superuser: ALTER SYSTEM SET wal_level = 'logical';\nthen restart the server (on RDS: set the parameter \
         rds.logical_replication to 1; on Cloud SQL: the flag cloudsql.logical_decoding to on)",
    )
}

fn encoding(name: &str) -> Check {
    match name {
        "UTF8" => Check::ok(codes::ENCODING, "server_encoding is UTF8"),
        "SQL_ASCII" => Check::warning(
            codes::ENCODING,
            "server_encoding is SQL_ASCII: the server converts nothing",
        )
        .detail("a row whose text is not UTF-8 cannot be sent")
        .fix(
            "move the outbox to a database made with: CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8';",
        ),
        other => {
            Check::ok(codes::ENCODING, format!("server_encoding is {other}; the server converts it to UTF-8"))
        }
    }
}

/// Makes the check of free slots, needed only if the slot will be created.
pub(super) fn free_slots(free: i64) -> Check {
    if free > 0 {
        return Check::ok(codes::FREE_SLOTS, format!("a replication slot can be made: {free} free"));
    }
    Check::failure(codes::FREE_SLOTS, "no replication slot is free (max_replication_slots)").fix(
        "drop an unused slot: SELECT slot_name, database, active FROM pg_replication_slots;\nor raise the \
         limit: ALTER SYSTEM SET max_replication_slots = 20; and restart the server",
    )
}

/// Makes the check of free walsenders. `ours` is the number of those of this check's own connections, which
/// the relay replaces.
pub(super) fn free_wal_senders(free: i64, ours: i64) -> Check {
    let free = free.saturating_add(ours);
    if free > 0 {
        return Check::ok(
            codes::FREE_WAL_SENDERS,
            format!("a walsender is free for the stream ({free} in all)"),
        );
    }
    Check::failure(codes::FREE_WAL_SENDERS, "no walsender is free (max_wal_senders)").fix(
        "end a session that is not needed: SELECT pid, application_name, client_addr FROM pg_stat_replication;\nor \
         raise the limit: ALTER SYSTEM SET max_wal_senders = 20; and restart the server",
    )
}

fn slot_wal_keep(limit_mb: i64) -> Check {
    if limit_mb < 0 {
        return Check::note(codes::SLOT_WAL_KEEP, "max_slot_wal_keep_size is not set: a slot keeps all WAL").detail(
            "while outboxd does not run, WAL is retained until the disk is full; nothing is lost before that.\n\
             With a limit the disk is safe, and events beyond it are lost: ALTER SYSTEM SET max_slot_wal_keep_size = '50GB';",
        );
    }
    Check::note(
        codes::SLOT_WAL_KEEP,
        format!("max_slot_wal_keep_size is {limit_mb} MB: a slot keeps no more WAL"),
    )
    .detail(
        "the disk is safe; an outboxd that falls behind further loses its slot and the events in it.\n\
             Without a limit (-1) nothing is lost, until the disk is full",
    )
}

fn wal_sender_timeout(timeout_ms: i64, status_interval: Duration) -> Check {
    let code = codes::WAL_SENDER_TIMEOUT;
    let interval_ms = i64::try_from(status_interval.as_millis()).unwrap_or(i64::MAX);
    match timeout_ms {
        ..=0 => Check::note(code, "wal_sender_timeout is 0: the server never gives up on a silent client")
            .detail("after a network failure the slot stays occupied until TCP gives up"),
        1..WAL_SENDER_TIMEOUT_MIN_MS => Check::warning(
            code,
            format!("wal_sender_timeout is {timeout_ms} ms: any short pause ends the stream"),
        )
        .fix("ALTER SYSTEM SET wal_sender_timeout = '60s'; SELECT pg_reload_conf();"),
        _ if interval_ms > timeout_ms / 3 => Check::note(
            code,
            format!(
                "status.update.interval.ms={interval_ms} is too long for wal_sender_timeout ({timeout_ms} ms); updates \
                 are sent every {} ms",
                timeout_ms / 3
            ),
        ),
        _ => Check::ok(
            code,
            format!("wal_sender_timeout is {timeout_ms} ms, status updates come every {interval_ms} ms"),
        ),
    }
}

fn idle_slot_timeout(seconds: i64) -> Option<Check> {
    (seconds > 0).then(|| {
        let title = format!(
            "idle_replication_slot_timeout is {seconds} s: the slot is lost when outboxd is away for that long"
        );
        Check::warning(codes::IDLE_SLOT_TIMEOUT, title)
            .fix("ALTER SYSTEM SET idle_replication_slot_timeout = 0; SELECT pg_reload_conf();")
    })
}

/// Makes the check of the server's clock, which is ahead of the local one by this number of seconds.
pub(super) fn clock(ahead_s: f64) -> Check {
    if ahead_s.abs() <= CLOCK_DIFFERENCE_MAX_S {
        return Check::ok(codes::CLOCK, "the clocks of the server and of this host agree");
    }
    let (by, where_to) = (ahead_s.abs(), if ahead_s > 0.0 { "ahead of" } else { "behind" });
    Check::warning(codes::CLOCK, format!("the server's clock is {by:.0} s {where_to} this host's"))
        .detail("timestamps and ages of events are wrong by as much")
        .fix("synchronise both with NTP (timedatectl set-ntp true)")
}

#[cfg(test)]
mod tests {
    use super::super::report::Outcome::{self, Failure, Note, Ok, Warning};
    use super::*;
    use crate::wal::Oid;

    fn facts() -> ServerFacts {
        ServerFacts {
            version_num: 180_004,
            wal_level: "logical".to_owned(),
            effective_wal_level: None,
            in_recovery: false,
            wal_sender_timeout_ms: 60_000,
            encoding: "UTF8".to_owned(),
            slot_wal_keep_mb: -1,
            free_slots: 1,
            free_wal_senders: 1,
            idle_slot_timeout_s: 0,
            database: Oid(5),
        }
    }

    fn outcomes(checks: &[Check]) -> Vec<(&'static str, Outcome)> {
        checks.iter().map(|check| (check.code.as_str(), check.outcome)).collect()
    }

    #[test]
    fn a_default_server_with_logical_decoding_is_fit() {
        let all = [("PG004", Ok), ("PG005", Ok), ("PG003", Ok), ("PG006", Ok)];
        assert_eq!(outcomes(&requirements(&facts(), false)), all);
        let waits = patience(&facts(), Duration::from_secs(10));
        assert_eq!(outcomes(&waits), [("PG009", Note), ("PG010", Ok)]);
    }

    #[test]
    fn every_failure_has_a_fix() {
        let unfit = ServerFacts {
            version_num: 150_020,
            wal_level: "replica".to_owned(),
            in_recovery: true,
            encoding: "SQL_ASCII".to_owned(),
            ..facts()
        };
        let checks = requirements(&unfit, false);
        let expected = [("PG004", Ok), ("PG005", Failure), ("PG003", Failure), ("PG006", Warning)];
        assert_eq!(outcomes(&checks), expected);
        assert!(checks.iter().skip(1).all(|check| check.fix.is_some()));
        let old = version(130_020);
        assert!(old.outcome == Failure && old.fix.is_some());
    }

    #[test]
    fn a_standby_needs_read_only_and_postgresql_16() {
        let standby = |version_num| ServerFacts { in_recovery: true, version_num, ..facts() };
        let outcome = |facts: ServerFacts, read_only| primary(&facts, read_only).outcome;
        assert_eq!(outcome(standby(180_004), false), Failure);
        assert_eq!(outcome(standby(180_004), true), Ok);
        assert_eq!(outcome(standby(160_000), true), Ok);
        assert_eq!(outcome(standby(150_000), true), Failure);
        assert_eq!(outcome(facts(), true), Ok);
    }

    #[test]
    fn single_settings() {
        let interval = Duration::from_secs(10);
        let cases = [
            (encoding("LATIN1"), Ok, "converts it to UTF-8"),
            (slot_wal_keep(1024), Note, "1024 MB"),
            (wal_sender_timeout(0, interval), Note, "never gives up"),
            (wal_sender_timeout(1_000, interval), Warning, "any short pause"),
            (wal_sender_timeout(15_000, interval), Note, "every 5000 ms"),
            (free_slots(0), Failure, "max_replication_slots"),
            (free_slots(3), Ok, "3 free"),
            (free_wal_senders(0, 1), Ok, "1 in all"),
            (free_wal_senders(0, 0), Failure, "max_wal_senders"),
            (clock(0.2), Ok, "agree"),
            (clock(-61.0), Warning, "61 s behind"),
            (clock(7.4), Warning, "7 s ahead of"),
        ];
        for (check, outcome, words) in cases {
            assert!(check.outcome == outcome && check.title.contains(words), "{check:?}");
        }
        assert_eq!(idle_slot_timeout(0), None);
        assert_eq!(idle_slot_timeout(86_400).map(|check| check.outcome), Some(Warning));
    }
}
