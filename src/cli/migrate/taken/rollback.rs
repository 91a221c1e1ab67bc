use postgres_protocol::escape::escape_literal;

use super::site::{Phase, Site};
use crate::cli::migrate::args::{From, RollbackArgs};
use crate::cli::migrate::error::MigrateError;
use crate::cli::migrate::outcome::Outcome;
use crate::cli::steps::{Doing, Step};
use crate::error::Exit;
use crate::postgres::SlotFacts;

pub(in crate::cli::migrate) async fn rollback(args: &RollbackArgs, from: &str) -> Result<Exit, MigrateError> {
    let site = Site::look(&args.target, from).await?;
    let mut doing = Doing::default();
    let outcome = |doing| Outcome::new("rollback", From::Slot(from), from, doing);
    match site.phase() {
        Phase::NotBegun => {
            let said = format!("slot {} is not there: nothing to take back", site.name());
            return Ok(outcome(doing).said(said).tell(args.json));
        }
        Phase::Finished => return Err(MigrateError::NoSuchSlot(site.from)),
        Phase::Copied => {}
    }
    if let Some(pid) = site.ours.as_ref().and_then(|slot| slot.active_pid) {
        return Err(MigrateError::Running { slot: site.name().to_owned(), pid });
    }
    if let Some(pid) = site.theirs.as_ref().and_then(|slot| slot.active_pid) {
        return Err(MigrateError::ReadByOther { slot: site.from, pid });
    }
    if let Some(step) = advance(&site) {
        doing.run(site.database(), step).await?;
    }
    doing.run(site.database(), Site::drop_slot(site.name())).await?;
    let said = format!("slot {from} stands where outboxd was, and {} is gone", site.name());
    Ok(outcome(doing).said(said).next("start the other program again").tell(args.json))
}

/// Never back: a rollback that was killed before it dropped our slot may be run again, and the server refuses it.
fn advance(site: &Site) -> Option<Step> {
    let at = |slot: &Option<SlotFacts>| slot.as_ref().and_then(|slot| slot.confirmed_flush_lsn);
    let (ours, theirs) = (at(&site.ours)?, at(&site.theirs)?);
    let text =
        format!("SELECT pg_replication_slot_advance({}, '{ours}')", escape_literal(&site.from).trim_start());
    let what = format!("replication slot {:?} moves from {theirs} to where outboxd was", site.from);
    (ours > theirs).then(|| Step::for_good(what, text))
}
