//! State of the slot without a running outboxd.

use std::time::Instant;

use serde::Serialize;

use super::error::StatusError;
use crate::cli::shell::sql::open;
use crate::error::Diagnose as _;
use crate::postgres::{Options, SlotFacts, Sql, shown_application};
use crate::telemetry::{Runway, fix_names};
use crate::wal::Lsn;

/// `application_name` of the command's sessions in `pg_stat_activity`.
pub(super) const APPLICATION: &str = "outboxd status";

/// State of the slot according to PostgreSQL.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::cli) struct Direct {
    pub(in crate::cli) slot: String,
    pub(in crate::cli) plugin: Option<String>,
    pub(in crate::cli) database: Option<String>,
    /// Client that reads it; `None` when it is not read.
    pub(in crate::cli) holder: Option<String>,
    /// Time since which it is not read (PostgreSQL 17).
    pub(in crate::cli) inactive_since: Option<String>,
    pub(in crate::cli) confirmed: Option<String>,
    pub(in crate::cli) server: String,
    /// WAL that is not confirmed.
    pub(in crate::cli) lag_bytes: Option<u64>,
    /// WAL that the slot retains on the server's disk.
    pub(in crate::cli) retained_bytes: u64,
    pub(in crate::cli) safe_wal_bytes: Option<i64>,
    pub(in crate::cli) wal_status: Option<String>,
    /// Reason why it is of no use any more; `None` while it is.
    pub(in crate::cli) lost: Option<String>,
    /// Reason for which the last outboxd has ended and the next one will: rows are not in the stream, and the
    /// operator has not acted yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) stopped: Option<String>,
    /// Known from the second query on.
    pub(in crate::cli) wal_bytes_per_second: Option<u64>,
    pub(in crate::cli) runway: Runway,
    /// Fix, if something must be done.
    #[serde(flatten, serialize_with = "fix_names::serialize")]
    pub(in crate::cli) fix: Option<String>,
}

const START: &str = "start outboxd run with this configuration: until a client reads the slot nothing is sent, and \
                     the slot retains all WAL from here on";
const START_AT_ONCE: &str = "start outboxd run with this configuration at once: the slot may be lost at the next checkpoint, \
                             and with it every event that is not sent. A larger max_slot_wal_keep_size gives it time";
const MAKE_ROOM: &str = "set a larger max_slot_wal_keep_size at once: the slot may be lost at the next checkpoint, and with it \
                         every event that is not sent. The log of the outboxd that reads it has the reason for which it waits";

/// Looks at one slot.
#[derive(Debug)]
pub(in crate::cli) struct SlotQuery {
    options: Options,
    sql: Option<Sql>,
    rate: Rate,
}

/// Rate at which the server writes WAL, since the first query.
#[derive(Debug, Default)]
struct Rate(Option<(Instant, Lsn)>);

impl SlotQuery {
    pub(super) fn new(options: Options) -> Self {
        Self { options, sql: None, rate: Rate::default() }
    }

    pub(super) async fn once(&mut self) -> Result<Direct, StatusError> {
        let name = self.options.slot.name.clone();
        let sql = match self.sql.take().filter(|sql| !sql.is_closed()) {
            Some(sql) => sql,
            None => open(&self.options.server, APPLICATION).await?,
        };
        let facts = sql.slot(&name).await?;
        self.sql = Some(sql);
        let facts =
            facts.ok_or_else(|| StatusError::NoSlot { slot: name.to_string(), next: None, fix: None })?;
        let rate = self.rate.take(facts.server_lsn, Instant::now());
        let mut direct = Direct::of(name.to_string(), &facts, rate);
        // The fix that the next start would name.
        let lost = direct.lost.as_deref().map(|reason| self.options.slot.lost(reason));
        direct.fix = lost.and_then(|error| error.fix()).or(direct.fix);
        Ok(direct)
    }
}

impl Rate {
    /// Returns the rate in whole bytes a second.
    fn take(&mut self, server: Lsn, now: Instant) -> Option<u64> {
        let (since, from) = *self.0.get_or_insert((now, server));
        let millis = u64::try_from(now.saturating_duration_since(since).as_millis()).ok()?;
        server.bytes_since(from).saturating_mul(1000).checked_div(millis)
    }
}

impl Direct {
    pub(in crate::cli) fn of(slot: String, facts: &SlotFacts, rate: Option<u64>) -> Self {
        let lost = facts.invalidation();
        let holder = facts.active_pid.map(|pid| {
            let application = facts.application.as_deref().filter(|name| !name.is_empty());
            application.map_or_else(
                || format!("pid {pid}"),
                |name| format!("pid {pid} ({})", shown_application(name)),
            )
        });
        let is_unreserved = facts.wal_status.as_deref() == Some("unreserved");
        let is_over = lost.is_some() || is_unreserved;
        let fix = match (is_unreserved, facts.active_pid) {
            (false, Some(_)) => None,
            (false, None) => Some(START),
            (true, None) => Some(START_AT_ONCE),
            (true, Some(_)) => Some(MAKE_ROOM),
        };
        Self {
            slot,
            plugin: facts.plugin.clone(),
            database: facts.database.clone(),
            holder,
            inactive_since: facts.inactive_since.clone(),
            confirmed: facts.confirmed_flush_lsn.map(|lsn| lsn.to_string()),
            server: facts.server_lsn.to_string(),
            lag_bytes: facts.confirmed_flush_lsn.map(|lsn| facts.server_lsn.bytes_since(lsn)),
            retained_bytes: u64::try_from(facts.retained_bytes).unwrap_or_default(),
            safe_wal_bytes: facts.safe_wal_bytes,
            wal_status: facts.wal_status.clone(),
            lost,
            stopped: None,
            wal_bytes_per_second: rate,
            runway: Runway::of(is_over, facts.safe_wal_bytes, rate),
            fix: fix.map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_rate_is_that_since_the_first_look() {
        let (mut rate, now) = (Rate::default(), Instant::now());
        let mut take = |lsn, seconds| rate.take(Lsn::new(lsn), now + Duration::from_secs(seconds));
        assert_eq!([take(1000, 0), take(1500, 1), take(3000, 4)], [None, Some(500), Some(500)]);
    }
}
