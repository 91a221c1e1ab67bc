//! `outboxd migrate finish` from another slot.

use super::site::{Phase, Site};
use crate::cli::change::migrate::args::{FinishArgs, From};
use crate::cli::change::migrate::error::MigrateError;
use crate::cli::change::migrate::outcome::Outcome;
use crate::cli::print_message;
use crate::cli::shell::ask::{Answer, confirmed};
use crate::cli::shell::steps::CompletedSteps;
use crate::error::Exit;

pub(in crate::cli::change::migrate) async fn finish(
    args: &FinishArgs,
    from: &str,
) -> Result<Exit, MigrateError> {
    let site = Site::look(&args.target, from).await?;
    let mut doing = CompletedSteps::default();
    let outcome = |doing| Outcome::new("finish", From::Slot(from), from, doing);
    match site.phase() {
        Phase::NotBegun => return Err(MigrateError::NotCopied(site.name().to_owned())),
        Phase::Finished => {
            let said = format!("slot {from} is gone: nothing is left to do");
            return Ok(outcome(doing).said(said).report(args.json));
        }
        Phase::Copied => {}
    }
    if let Some(pid) = site.theirs.as_ref().and_then(|slot| slot.active_pid) {
        return Err(MigrateError::ReadByOther { slot: site.from, pid });
    }
    print_message(&format!(
        "slot {from} will be dropped: the program that has read it can no longer continue from its position"
    ));
    if confirmed(from, args.yes, "drops it").await == Answer::No {
        return Ok(outcome(doing).declined(args.json));
    }
    doing.run(site.database(), Site::drop_slot(from)).await?;
    Ok(outcome(doing).said(format!("dropped {from}")).report(args.json))
}
