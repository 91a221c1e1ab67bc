//! `outboxd migrate start` from another slot.

use postgres_protocol::escape::escape_literal;

use super::site::{Phase, Site};
use crate::cli::change::migrate::args::{From, StartArgs};
use crate::cli::change::migrate::error::MigrateError;
use crate::cli::change::migrate::first_run;
use crate::cli::change::migrate::outcome::Outcome;
use crate::cli::shell::steps::{CompletedSteps, Step};
use crate::error::Exit;
use crate::postgres::SlotFacts;

/// Returns the step that copies the slot, at the same position.
pub(super) fn copy(site: &Site) -> Step {
    let [theirs, ours] = [site.from.as_str(), site.name()].map(escape_literal);
    Step::new(
        format!("replication slot {:?}, where {:?} stands", site.name(), site.from),
        format!("SELECT pg_copy_logical_replication_slot({theirs}, {ours})"),
        format!("SELECT pg_drop_replication_slot({ours})"),
    )
    .unless(site.phase() != Phase::NotBegun)
}

pub(in crate::cli::change::migrate) async fn start(
    args: &StartArgs,
    from: &str,
) -> Result<Exit, MigrateError> {
    let site = Site::look(&args.target, from).await?;
    site.check_beginning().await?;
    site.check_publication().await?;
    let mut doing = CompletedSteps::default();
    if site.phase() == Phase::NotBegun {
        if let Some(pid) = site.theirs.as_ref().and_then(|slot| slot.active_pid) {
            return Err(MigrateError::ReadByOther { slot: site.from, pid });
        }
        doing.run(site.database(), copy(&site)).await?;
    } else {
        // A slot of this name that was created for something else would skip what lies between the two.
        let at = |slot: &Option<SlotFacts>| slot.as_ref().and_then(|slot| slot.confirmed_flush_lsn);
        if at(&site.theirs) != at(&site.ours) {
            return Err(MigrateError::Elsewhere { slot: site.name().to_owned(), from: site.from });
        }
    }
    let outcome = Outcome::new("start", From::Slot(from), from, doing)
        .said(format!("{} continues at the position of {from}", site.name()))
        .next(args.target.in_commands(&first_run(&site.parts, &site.sql).await?))
        .undo(args.target.in_commands("outboxd migrate rollback TARGET"));
    Ok(outcome.report(args.json))
}
