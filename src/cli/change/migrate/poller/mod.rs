//! Migration from a program that polls the table. Each row belongs to the poller or to outboxd from its insert on.
//!
//! ```text
//! mark ─▶ site (what is there) ─▶ phase ─▶ steps ─▶ start (flip, drain) │ finish │ rollback (hold) ─▶ report
//! ```

mod drain;
mod finish;
mod mark;
mod phase;
mod report;
mod rollback;
mod site;
mod start;
mod steps;

pub(super) use finish::finish;
pub(super) use rollback::rollback;
pub(super) use start::start;

use site::Site;

use super::args::{PlanArgs, StatusArgs};
use super::error::MigrateError;
use super::first_run;
use crate::cli::print;
use crate::cli::shell::steps as statements;
use crate::error::Exit;

/// Runs `outboxd migrate plan`.
pub(super) async fn plan(args: &PlanArgs) -> Result<Exit, MigrateError> {
    let site = Site::look(&args.target).await?;
    site.check_server()?;
    site.check_beginning()?;
    let steps = steps::all(&site);
    if args.print_sql {
        print(&statements::script(&steps));
    } else if args.json {
        print(&report::plan_object(&site, &args.target, &steps));
    } else {
        print(&report::plan(&site, &args.target, &steps));
    }
    Ok(Exit::Ok)
}

/// Runs `outboxd migrate status`.
pub(super) async fn status(args: &StatusArgs) -> Result<Exit, MigrateError> {
    let mut site = Site::look(&args.target).await?;
    if site.waits_for_outboxd() {
        site.run = Some(args.target.in_commands(&first_run(&site.parts, &site.sql).await?));
    }
    print(&if args.json {
        report::status_object(&site, &args.target)
    } else {
        report::status(&site, &args.target)
    });
    Ok(phase::exit(&site))
}
