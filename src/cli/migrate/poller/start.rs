use std::time::Duration;

use tokio::time::sleep;

use super::phase::Phase;
use super::site::Site;
use super::{drain, steps};
use crate::cli::migrate::args::StartArgs;
use crate::cli::migrate::error::MigrateError;
use crate::cli::migrate::first_run;
use crate::cli::steps::{StepError, apply};
use crate::cli::{print, say};
use crate::error::Exit;
use crate::postgres::HandoverPhase;

/// How often a slot that is being made is looked at.
const INTERVAL: Duration = Duration::from_millis(200);

/// `outboxd migrate start`.
pub(in crate::cli::migrate) async fn start(args: &StartArgs) -> Result<Exit, MigrateError> {
    let mut site = Site::look(&args.target).await?;
    site.check_server()?;
    site.check_beginning()?;
    let past = |why| MigrateError::Past { table: site.name(), why };
    match site.phase() {
        Phase::Finishing | Phase::Finished => return Err(past("it is finished")),
        Phase::Returned => return Err(past("its rows are the poller's again")),
        Phase::Drained => {
            print(&format!("{} is outboxd's already\n", site.name()));
            return Ok(Exit::Ok);
        }
        _ => {}
    }
    let role = site.options.server.user.clone();
    apply(&site.sql, &role, &[steps::publication(&site)]).await?;
    if site.slot.is_none() {
        apply(&site.sql, &role, &[steps::slot(&site)]).await?;
    }
    // An earlier command may have been killed while the server was making it.
    while site
        .slot
        .as_ref()
        .is_none_or(|slot| slot.confirmed_flush_lsn.is_none() && slot.invalidation().is_none())
    {
        site.slot = site.sql.slot(&site.options.slot.name).await?;
        sleep(INTERVAL).await;
    }
    site.check_slot()?;
    let flip = steps::flip(&site);
    if !flip.done {
        match drain::with_lock(&site, &flip.what, &flip.sql).await {
            Err(source) if source.sqlstate() == Some("42501") => {
                return Err(
                    StepError::NoRight { role, remaining: vec![flip], source: Box::new(source) }.into()
                );
            }
            outcome => outcome?,
        }
        say(&format!("made {}", flip.what));
    }
    drain::wait(&site, args.settle).await?;
    site.sql.execute("keeping how far it is", &site.note(HandoverPhase::Drained)).await?;
    print(&format!("{} is outboxd's: the poller has sent its last row\n", site.name()));
    say(&format!(
        "  now: {}\n  undo: outboxd migrate rollback -c FILE",
        first_run(&site.parts, &site.sql).await?
    ));
    Ok(Exit::Ok)
}
