//! `outboxd migrate rollback` to another slot.

use postgres_protocol::escape::escape_literal;

use super::site::{Phase, Site};
use crate::cli::change::migrate::args::{From, RollbackArgs};
use crate::cli::change::migrate::error::MigrateError;
use crate::cli::change::migrate::last_run::LastRun;
use crate::cli::change::migrate::outcome::Outcome;
use crate::cli::print_message;
use crate::cli::shell::steps::{CompletedSteps, Step};
use crate::error::Exit;
use crate::postgres::SlotFacts;

pub(in crate::cli::change::migrate) async fn rollback(
    args: &RollbackArgs,
    from: &str,
) -> Result<Exit, MigrateError> {
    let site = Site::look(&args.target, from).await?;
    let mut doing = CompletedSteps::default();
    let outcome = |doing| Outcome::new("rollback", From::Slot(from), from, doing);
    match site.phase() {
        Phase::NotBegun => {
            let said = format!("there is no slot {}: nothing to roll back", site.name());
            return Ok(outcome(doing).said(said).report(args.json));
        }
        Phase::Finished => return Err(MigrateError::no_such_slot(&site.sql, &site.from).await),
        Phase::Copied => {}
    }
    if let Some(pid) = site.ours.as_ref().and_then(|slot| slot.active_pid) {
        return Err(MigrateError::Running { slot: site.name().to_owned(), pid });
    }
    if let Some(pid) = site.theirs.as_ref().and_then(|slot| slot.active_pid) {
        return Err(MigrateError::ReadByOther { slot: site.from, pid });
    }
    let steps: Vec<Step> = advance(&site).into_iter().chain([Site::drop_slot(site.name())]).collect();
    // After a crash the position of the slot is before the last sent events, which only the next start of outboxd would
    // detect.
    match LastRun::ask(&site.parts, site.ours.as_ref().and_then(|slot| slot.confirmed_flush_lsn)).await? {
        LastRun::Ended => {}
        LastRun::Broken | LastRun::Forgotten => {
            let anyway: Vec<_> = steps.iter().map(|step| format!("{};", step.sql)).collect();
            let anyway = anyway.join(" ");
            return Err(MigrateError::NotEnded { other: "the other program", anyway });
        }
        LastRun::Unknown => print_message(
            "  the exit code of outboxd is unknown: if it is not 0, the other program repeats the last events of outboxd",
        ),
    }
    for step in steps {
        doing.run(site.database(), step).await?;
    }
    let said = format!("slot {from} is at outboxd's position, and {} no longer exists", site.name());
    Ok(outcome(doing).said(said).next("start the other program again").report(args.json))
}

/// Returns the step that advances the slot. It never moves the slot back: a rollback that was killed before it dropped
/// outboxd's slot may be run again, and the server refuses that.
fn advance(site: &Site) -> Option<Step> {
    let at = |slot: &Option<SlotFacts>| slot.as_ref().and_then(|slot| slot.confirmed_flush_lsn);
    let (ours, theirs) = (at(&site.ours)?, at(&site.theirs)?);
    let text =
        format!("SELECT pg_replication_slot_advance({}, '{ours}')", escape_literal(&site.from).trim_start());
    let what = format!("replication slot {:?} moves from {theirs} to where outboxd was", site.from);
    (ours > theirs).then(|| Step::for_good(what, text))
}
