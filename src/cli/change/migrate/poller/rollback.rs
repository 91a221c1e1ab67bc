//! `outboxd migrate rollback` to a poller.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::phase::Phase;
use super::site::{APPLICATION, Site};
use super::{drain, steps};
use crate::cli::change::migrate::args::{From, RollbackArgs};
use crate::cli::change::migrate::error::MigrateError;
use crate::cli::change::migrate::outcome::Outcome;
use crate::cli::shell::sql::open;
use crate::cli::shell::steps::CompletedSteps;
use crate::cli::shell::waiting::Waiting;
use crate::error::Exit;
use crate::postgres::{Error, Sql};
use crate::wal::Lsn;

/// Interval of the checks of the slot.
const INTERVAL: Duration = Duration::from_millis(50);

/// Lag in bytes that is small enough to block inserts until outboxd has caught up.
const NEAR_BYTES: u64 = 1 << 20;

/// Runs `outboxd migrate rollback`.
pub(in crate::cli::change::migrate) async fn rollback(args: &RollbackArgs) -> Result<Exit, MigrateError> {
    let site = Site::look(&args.target).await?;
    let (table, mut doing) = (site.name(), CompletedSteps::default());
    let outcome = |doing| Outcome::new("rollback", From::Poller, site.name(), doing);
    match site.phase() {
        Phase::NotBegun => {
            let said = format!("no migration of {table} has begun: nothing to roll back");
            return Ok(outcome(doing).said(said).report(args.json));
        }
        Phase::Foreign => return Err(MigrateError::NotBegun(table)),
        Phase::Finishing | Phase::Finished => {
            return Err(MigrateError::Past { table, why: "it is finished" });
        }
        // The poller sends outboxd's rows as well: none is lost when the slot is dropped.
        Phase::Draining | Phase::Drained if args.poller_sends_all => {
            site.check_stopped()?;
            if site.marked.unwrap_or_default() == 0 {
                return Err(MigrateError::NotMarked { table });
            }
        }
        // No row is outboxd's yet.
        Phase::Published | Phase::Slotted | Phase::Returned => {}
        Phase::Draining => {
            return Err(MigrateError::NotSoFar {
                table,
                why: "the poller still has rows of its own to send, and outboxd has new ones",
            });
        }
        Phase::Drained => hand_back(&site, &mut doing, args.hold).await?,
    }
    if site.slot.as_ref().is_some_and(|slot| slot.active_pid.is_some()) {
        let outcome = outcome(doing)
            .not_done()
            .said(format!("{table} is the poller's again: outboxd has sent its last row"))
            .next("stop outboxd, then run this again: it drops the slot and the publication");
        return Ok(outcome.report(args.json));
    }
    drain::with_lock(&site, &mut doing, steps::untrigger(&site)).await?;
    doing.run(site.database(), steps::drop_slot(&site)).await?;
    doing.run(site.database(), steps::drop_publication(&site)).await?;
    let said = format!("{table} is the poller's: slot and publication are gone");
    Ok(outcome(doing).said(said).report(args.json))
}

/// Gives new rows to the poller once outboxd has sent the last of its own, and blocks inserts in between. Neither the
/// poller nor outboxd needs to be stopped, and neither overtakes the other.
async fn hand_back(site: &Site, doing: &mut CompletedSteps, hold: Duration) -> Result<(), MigrateError> {
    if site.check_slot()?.active_pid.is_none() {
        return Err(MigrateError::NotRunning(site.slot_name().to_owned()));
    }
    let watch = open(&site.options.server, APPLICATION).await?;
    let (deadline, mut waiting) = (Instant::now() + hold, Waiting::new());
    while lag(site, &watch).await? > NEAR_BYTES {
        waiting.report_waiting("outboxd, which is behind", "");
        if Instant::now() >= deadline {
            return Err(MigrateError::Hold { seconds: hold.as_secs() });
        }
        sleep(INTERVAL).await;
    }
    drop(waiting);
    let last = lock(site, &watch, doing).await?;
    let caught_up = reach(site, &watch, last, hold).await;
    if !matches!(caught_up, Ok(true)) {
        site.sql.execute("unblocking inserts", "ROLLBACK").await?;
        caught_up?;
        return Err(MigrateError::Hold { seconds: hold.as_secs() });
    }
    Ok(doing.run(site.database(), steps::hand_back(site)).await?)
}

/// Begins a transaction that blocks writes to the table, and returns a position in the WAL behind all earlier writes to
/// it. The WAL is flushed beyond that position, so that the slot can advance past it.
async fn lock(site: &Site, watch: &Sql, doing: &mut CompletedSteps) -> Result<Lsn, MigrateError> {
    const DOING: &str = "holding inserts";
    let (hold, place) = (steps::hold(site), steps::place(site));
    // The step is printed before the lock is requested, so that no insert waits for the output.
    doing.carry_out(hold.clone(), drain::begin_with_lock(site, DOING, &hold.sql)).await?;
    let rows = doing.carry_out(place.clone(), watch.query(DOING, &place.sql, &[])).await?;
    let text = rows.first().and_then(|row| row.try_get::<_, String>(0).ok());
    let end = text.and_then(|text| text.parse().ok());
    Ok(end.ok_or(Error::Unexpected { message: "empty answer".to_owned(), doing: DOING })?)
}

/// Waits until the slot is confirmed up to `last`. Returns false after the time `hold`.
async fn reach(site: &Site, watch: &Sql, last: Lsn, hold: Duration) -> Result<bool, MigrateError> {
    let deadline = Instant::now() + hold;
    loop {
        let slot = watch.slot(&site.options.slot.name).await?;
        if slot.and_then(|slot| slot.confirmed_flush_lsn).is_some_and(|confirmed| confirmed >= last) {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        sleep(INTERVAL).await;
    }
}

async fn lag(site: &Site, watch: &Sql) -> Result<u64, MigrateError> {
    let slot = watch.slot(&site.options.slot.name).await?;
    let gone = || MigrateError::OwnSlotLost { slot: site.slot_name().to_owned(), because: None };
    let slot = slot.ok_or_else(gone)?;
    Ok(slot.confirmed_flush_lsn.map_or(0, |confirmed| slot.server_lsn.bytes_since(confirmed)))
}
