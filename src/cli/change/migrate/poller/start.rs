//! `outboxd migrate start` from a poller.

use std::time::Duration;

use tokio::time::sleep;

use super::phase::Phase;
use super::site::Site;
use super::{drain, steps};
use crate::cli::change::migrate::args::{From, StartArgs};
use crate::cli::change::migrate::error::MigrateError;
use crate::cli::change::migrate::first_run;
use crate::cli::change::migrate::outcome::Outcome;
use crate::cli::shell::steps::CompletedSteps;
use crate::cli::shell::waiting::{Waiting, holder};
use crate::error::Exit;

/// Interval of the checks of a slot that is being created.
const INTERVAL: Duration = Duration::from_millis(200);

/// Runs `outboxd migrate start`.
pub(in crate::cli::change::migrate) async fn start(args: &StartArgs) -> Result<Exit, MigrateError> {
    let mut site = Site::look(&args.target).await?;
    site.check_server()?;
    site.check_beginning()?;
    let past = |why| MigrateError::Past { table: site.name(), why };
    match site.phase() {
        Phase::Finishing | Phase::Finished => return Err(past("it is finished")),
        Phase::Returned => return Err(past("its rows are the poller's again")),
        Phase::Drained => {
            site.check_unmarked()?;
            let said = format!("{} is outboxd's already", site.name());
            let outcome =
                Outcome::new("start", From::Poller, site.name(), CompletedSteps::default()).said(said);
            return Ok(outcome.report(args.json));
        }
        Phase::NotBegun | Phase::Foreign | Phase::Published | Phase::Slotted | Phase::Draining => {}
    }
    let mut doing = CompletedSteps::default();
    doing.run(site.database(), steps::publication(&site)).await?;
    make_slot(&mut site, &mut doing).await?;
    drain::with_lock(&site, &mut doing, steps::flip(&site)).await?;
    drain::wait(&site, args.settle).await?;
    doing.run(site.database(), steps::drained(&site)).await?;
    let outcome = Outcome::new("start", From::Poller, site.name(), doing)
        .said(format!("{} is outboxd's: the poller has sent its last row", site.name()))
        .next(args.target.in_commands(&first_run(&site.parts, &site.sql).await?))
        .undo(args.target.in_commands("outboxd migrate rollback TARGET"));
    Ok(outcome.report(args.json))
}

/// Creates the slot, or waits until the server has created it. An earlier command may have been killed meanwhile: the
/// server continues without it. If the server gives up, for example because its process was ended, there is no slot,
/// and it is created again.
async fn make_slot(site: &mut Site, doing: &mut CompletedSteps) -> Result<(), MigrateError> {
    let mut waiting = Waiting::new();
    loop {
        site.slot = site.sql.slot(&site.options.slot.name).await?;
        if site.slot.is_none() {
            doing.run(site.database(), steps::slot(site)).await?;
            continue;
        }
        let slot = site.check_slot()?;
        if slot.confirmed_flush_lsn.is_some() {
            return Ok(());
        }
        let holder = match slot.active_pid {
            Some(maker) => holder(&site.sql, maker).await?,
            None => None,
        };
        let (who, open_for) = holder.unwrap_or_else(|| ("the server".to_owned(), String::new()));
        waiting.report_waiting(&who, &open_for);
        sleep(INTERVAL).await;
    }
}
