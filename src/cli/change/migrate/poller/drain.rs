//! Steps of a migration that need locks.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::site::{APPLICATION, Site, UNSENT_MAX, Unsent};
use crate::cli::change::migrate::error::MigrateError;
use crate::cli::print_message;
use crate::cli::shell::progress::Progress;
use crate::cli::shell::sql;
use crate::cli::shell::steps::{CompletedSteps, Step, StepError, failed};
use crate::cli::shell::waiting::{Waiting, oldest};
use crate::postgres::{Error, Sql};

/// Interval of the checks.
const INTERVAL: Duration = Duration::from_millis(100);

/// Limit of the wait for a lock, in which other sessions wait too.
const LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '250ms'";

/// SQLSTATE `lock_not_available`, `deadlock_detected`.
const NO_LOCK: [&str; 2] = ["55P03", "40P01"];

/// Average pause after an attempt that got no lock: other sessions proceed meanwhile.
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// Runs the statements of a step in one transaction, and repeats it until it gets its locks.
pub(super) async fn with_lock(site: &Site, doing: &mut CompletedSteps, step: Step) -> Result<(), StepError> {
    let Step { what, sql, .. } = step.clone();
    let work = async {
        begin_with_lock(site, &what, &sql).await?;
        site.sql.execute(&what, "COMMIT").await
    };
    let steps = [step.clone()];
    let work = async { work.await.map_err(|source| failed(site.database(), &steps, source)) };
    doing.carry_out(step, work).await
}

/// Begins a transaction with the statements, and repeats it until it gets its locks. The transaction stays open.
pub(super) async fn begin_with_lock(site: &Site, doing: &str, statements: &str) -> Result<(), Error> {
    let mut told = false;
    loop {
        match site.sql.execute(doing, &format!("BEGIN; {LOCK_TIMEOUT}; {statements}")).await {
            Err(error) if error.sqlstate().is_some_and(|state| NO_LOCK.contains(&state)) => {
                site.sql.execute(doing, "ROLLBACK").await?;
                if !told {
                    print_message(&format!("waiting for transactions that have written to {}", site.name()));
                    told = true;
                }
            }
            Err(error) => {
                // The first error is the one that counts.
                drop(site.sql.execute(doing, "ROLLBACK").await);
                return Err(error);
            }
            Ok(()) => return Ok(()),
        }
        sleep(LOCK_PAUSE.mul_f64(0.5 + fastrand::f64())).await;
    }
}

/// Waits until no row has waited for the poller for the time `settle`. Marks become visible when the poller commits
/// them, after it has sent the rows. Refuses a poller that has since marked rows of outboxd.
pub(super) async fn wait(site: &Site, settle: Duration) -> Result<(), MigrateError> {
    let progress = Progress::new();
    let mut empty_since: Option<Instant> = None;
    let mut told = false;
    let mut marked_before = site.count_marked().await?.unwrap_or_default();
    loop {
        let marked = site.count_marked().await?.unwrap_or_default();
        let unsent = Unsent::count(&site.sql, &site.table, &site.mark, UNSENT_MAX).await?;
        if unsent.rows == 0 {
            let since = *empty_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= settle {
                progress.end();
                // The poller has no rows of its own left: the rows that it has marked since are outboxd's.
                return site.check_marked(marked.saturating_sub(marked_before));
            }
        } else {
            (empty_since, marked_before) = (None, marked);
            if !told {
                print_message(&format!("waiting for the poller: {} of its own to send", unsent.shown()));
                told = true;
            }
            progress.waiting(&format!("the poller has {} left", unsent.shown()));
        }
        sleep(INTERVAL).await;
    }
}

/// Waits until every transaction that is running now has ended.
pub(super) async fn older_transactions(site: &Site) -> Result<(), MigrateError> {
    const DOING: &str = "waiting for transactions that run now";
    let get = |error| Error::sql(DOING, error);
    // A transaction ID that is assigned now is greater than that of each transaction that has one.
    let other: Sql = sql::open(&site.options.server, APPLICATION).await?;
    let rows = other.query(DOING, "select pg_current_xact_id()::text", &[]).await?;
    let now: String = rows.first().map(|row| row.try_get(0)).transpose().map_err(get)?.unwrap_or_default();
    let mut waiting = Waiting::new();
    loop {
        let ended = "select pg_snapshot_xmin(pg_current_snapshot()) > $1::text::xid8";
        let rows = site.sql.query(DOING, ended, &[&now]).await?;
        if rows.first().map(|row| row.try_get(0)).transpose().map_err(get)? == Some(true) {
            return Ok(());
        }
        // The session cannot always be named: a prepared transaction has none.
        let oldest =
            oldest(&other).await?.unwrap_or_else(|| ("transactions that run now".to_owned(), String::new()));
        waiting.report_waiting(&oldest.0, &oldest.1);
        sleep(INTERVAL).await;
    }
}
