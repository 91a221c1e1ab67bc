use super::site::{Phase, Site};
use crate::cli::migrate::args::RollbackArgs;
use crate::cli::migrate::error::MigrateError;
use crate::cli::{print, say};
use crate::error::Exit;

/// Never back: a rollback that was killed before it dropped our slot may be run again.
const ADVANCE: &str = "
select end_lsn::text from pg_replication_slots ours, pg_replication_slots theirs,
       pg_replication_slot_advance(theirs.slot_name, ours.confirmed_flush_lsn)
where ours.slot_name = $1 and theirs.slot_name = $2 and ours.confirmed_flush_lsn > theirs.confirmed_flush_lsn";

pub(in crate::cli::migrate) async fn rollback(args: &RollbackArgs, from: &str) -> Result<Exit, MigrateError> {
    let site = Site::look(&args.target, from).await?;
    match site.phase() {
        Phase::NotBegun => {
            print(&format!("slot {} is not there: nothing to take back\n", site.name()));
            return Ok(Exit::Ok);
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
    site.sql
        .query("moving the other slot to where outboxd was", ADVANCE, &[&site.name(), &site.from])
        .await?;
    site.sql.query("dropping the copy", "select pg_drop_replication_slot($1)", &[&site.name()]).await?;
    print(&format!("slot {from} stands where outboxd was, and {} is gone\n", site.name()));
    say("  now: start the other program again");
    Ok(Exit::Ok)
}
