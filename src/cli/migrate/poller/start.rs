use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::phase::Phase;
use super::site::Site;
use super::{drain, steps};
use crate::cli::migrate::args::StartArgs;
use crate::cli::migrate::error::MigrateError;
use crate::cli::steps::{StepError, apply};
use crate::cli::{print, say};
use crate::error::Exit;
use crate::postgres::HandoverPhase;
use crate::relay::{self, kept_position};

/// How often a slot that is being made is looked at.
const INTERVAL: Duration = Duration::from_millis(200);

/// How long the brokers may take to say whether there was such a slot before.
const PATIENCE: Duration = Duration::from_secs(10);

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
    say(&format!("  now: {}\n  undo: outboxd migrate rollback -c FILE", first_run(&site).await?));
    Ok(Exit::Ok)
}

/// How outboxd is to be started. It keeps where a slot of this name was, and would take the new one for one that somebody has moved.
async fn first_run(site: &Site) -> Result<String, MigrateError> {
    let run = "outboxd run -c FILE -X snapshot.mode=no_data".to_owned();
    // What cannot be read now is told by that start.
    let kept = kept_position(Arc::clone(&site.parts), PATIENCE).await.ok().flatten();
    let slot = site.sql.slot(&site.options.slot.name).await?;
    let stands = slot.and_then(|slot| slot.confirmed_flush_lsn);
    Ok(match (kept, stands) {
        (Some(kept), Some(stands)) if kept.phase == relay::Phase::Streaming && kept.lsn < stands => {
            format!("{run} -X outboxd.position.accept={stands} (once: there was a slot of this name before)")
        }
        _ => run,
    })
}
