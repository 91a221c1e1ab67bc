use super::site::{Phase, Site};
use crate::cli::ask::{Answer, confirmed};
use crate::cli::migrate::args::FinishArgs;
use crate::cli::migrate::error::MigrateError;
use crate::cli::{print, say};
use crate::error::Exit;

pub(in crate::cli::migrate) async fn finish(args: &FinishArgs, from: &str) -> Result<Exit, MigrateError> {
    let site = Site::look(&args.target, from).await?;
    match site.phase() {
        Phase::NotBegun => return Err(MigrateError::NotCopied(site.name().to_owned())),
        Phase::Finished => {
            print(&format!("slot {from} is gone: nothing is left to do\n"));
            return Ok(Exit::Ok);
        }
        Phase::Copied => {}
    }
    if let Some(pid) = site.theirs.as_ref().and_then(|slot| slot.active_pid) {
        return Err(MigrateError::ReadByOther { slot: site.from, pid });
    }
    say(&format!(
        "slot {from} will be dropped: the program that has read it cannot go on from where it was any more"
    ));
    if confirmed(from, args.yes, "drops it").await == Answer::No {
        return Ok(Exit::Ok);
    }
    site.sql.query("dropping the other slot", "select pg_drop_replication_slot($1)", &[&site.from]).await?;
    print(&format!("dropped {from}\n"));
    Ok(Exit::Ok)
}
