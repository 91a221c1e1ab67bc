//! Differences of a standby, from which `read.only=true` lets the relay read.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time;

use crate::postgres::{self, Sql};
use crate::relay::origin::Origin;
use crate::relay::parts::RelayParts;
use crate::wal::Lsn;

/// Interval between two checks whether the standby was promoted.
const INTERVAL: Duration = Duration::from_secs(1);

/// A signal that does not come in the stream: a standby cannot write it to the WAL.
#[derive(Debug)]
pub(in crate::relay) struct ForwardedSignal {
    pub(in crate::relay) document: String,
    /// Notified when the request is stored, so that it need not be repeated.
    pub(in crate::relay) kept: oneshot::Sender<()>,
}

/// Refuses a standby that has not got to where it was read before. On another history the LSN means something else.
///
/// # Errors
/// When it has to replay more.
pub(in crate::relay) fn check_replay(
    replayed: Lsn,
    before: &Origin,
    read_to: Lsn,
    now: &Origin,
) -> Result<(), postgres::Error> {
    if before != now || read_to <= replayed {
        return Ok(());
    }
    Err(postgres::Error::NotReplayed { replayed, read_to })
}

/// Refuses what needs a server that takes writes.
///
/// # Errors
/// When the configuration asks for it.
pub(in crate::relay) fn check_options(parts: &RelayParts) -> Result<(), postgres::Error> {
    let (problem, fix) = if parts.relay.cleanup.enabled {
        (
            "outboxd.cleanup.enable: a standby deletes no rows",
            "clean up at the primary, with another configuration, or point database.hostname at it",
        )
    } else if parts.relay.transactions.is_some() {
        (
            "exactly once is not possible from a standby: after its promotion it is not known which rows Kafka has",
            "set outboxd.delivery.guarantee=tail_dedupe and exactly.once.support=requested, or point database.hostname at the primary",
        )
    } else {
        return Ok(());
    };
    Err(postgres::Error::Precondition { problem: problem.to_owned(), fix: fix.to_owned() })
}

/// Returns what the operator must know of this standby, one line each.
///
/// # Errors
/// When the query fails.
pub(in crate::relay) async fn notes(parts: &RelayParts, sql: &Sql) -> Result<Vec<String>, postgres::Error> {
    const DOING: &str = "reading the standby's settings";
    const ASK: &str = "SELECT current_setting('hot_standby_feedback'), current_setting('primary_slot_name')";
    let settings = sql.texts(DOING, ASK).await?.unwrap_or_default();
    let is = |index: usize, text: &str| settings.get(index).and_then(Option::as_deref) == Some(text);
    let mut notes = Vec::new();
    if is(0, "off") {
        notes.push(
            "hot_standby_feedback is off on this standby: the primary may remove rows of its catalog that the slot needs, and \
             then the slot is lost. On the standby: ALTER SYSTEM SET hot_standby_feedback = on; SELECT pg_reload_conf();"
                .to_owned(),
        );
    } else if is(1, "") {
        notes.push(
            "primary_slot_name is not set on this standby: while it has no connection to the primary, the primary may remove \
             rows of its catalog that the slot needs, and then the slot is lost"
                .to_owned(),
        );
    }
    if parts.relay.heartbeat.as_ref().is_some_and(|heartbeat| heartbeat.query.is_some()) {
        notes.push(
            "heartbeat.action.query is not run: a standby accepts no writes. The slot advances without it"
                .to_owned(),
        );
    }
    Ok(notes)
}

/// Guard that a standby stays one. The stream continues over a promotion without reporting it, but stored
/// positions must name the timeline that they are on.
#[derive(Debug)]
pub(in crate::relay) struct PromotionGuard {
    promoted: oneshot::Receiver<()>,
    _watcher: JoinSet<()>,
}

impl PromotionGuard {
    /// Begins to watch, until it is dropped.
    pub(in crate::relay) fn watch(sql: &Arc<Sql>, is_standby: bool) -> Self {
        let (sender, promoted) = oneshot::channel();
        let mut tasks = JoinSet::new();
        if is_standby {
            let sql = Arc::clone(sql);
            tasks.spawn(async move {
                wait_for_promotion(&sql).await;
                sender.send(()).ok();
            });
        }
        Self { promoted, _watcher: tasks }
    }

    /// Checks that the standby was not promoted.
    ///
    /// # Errors
    ///
    /// When it was.
    pub(in crate::relay) fn check(&mut self) -> Result<(), postgres::Error> {
        self.promoted.try_recv().map_or(Ok(()), |()| Err(postgres::Error::Promoted))
    }
}

async fn wait_for_promotion(sql: &Sql) {
    loop {
        let answer = sql.texts("asking for the recovery's state", "SELECT pg_is_in_recovery()").await;
        // The stream fails when PostgreSQL is gone; a failure of this connection alone means nothing.
        if let Ok(Some(row)) = answer
            && row.first().and_then(Option::as_deref) == Some("f")
        {
            return;
        }
        time::sleep(INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::{SystemId, TimelineId};

    #[test]
    fn a_standby_that_is_not_yet_where_it_was_is_waited_for() {
        let origin = |id: &str, timeline| Origin {
            system_id: SystemId(id.to_owned()),
            timeline: TimelineId(timeline),
        };
        let is_refused = |replayed, before: Origin, read_to| {
            check_replay(Lsn::new(replayed), &before, Lsn::new(read_to), &origin("1", 2)).is_err()
        };
        assert!(is_refused(500, origin("1", 2), 501));
        assert!(!is_refused(500, origin("1", 2), 500));
        // It was read on another timeline, or elsewhere: that is judged otherwise.
        assert!(!is_refused(500, origin("1", 1), 501));
        assert!(!is_refused(500, origin("2", 2), 501));
    }
}
