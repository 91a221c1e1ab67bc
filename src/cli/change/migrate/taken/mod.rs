//! Migration from another program that reads its own slot by `pgoutput` (Sequin, go-pq-cdc). Its slot is copied at its position,
//! and retained until the end, so that the other program can continue from where outboxd stopped.
//!
//! Events that it had sent and not confirmed are sent again, as after a restart of that program.

mod finish;
mod report;
mod rollback;
mod site;
mod start;

pub(super) use finish::finish;
pub(super) use rollback::rollback;
pub(super) use start::start;

use site::Site;

use super::args::TargetArgs;
use super::error::MigrateError;
use crate::cli::print;
use crate::cli::shell::steps::script;
use crate::error::Exit;

/// Form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Json,
    Script,
}

pub(super) async fn plan(args: &TargetArgs, from: &str, form: Form) -> Result<Exit, MigrateError> {
    let site = Site::look(args, from).await?;
    site.check_beginning().await?;
    let step = start::copy(&site);
    print(&match form {
        Form::Text => report::plan(&site, args, &step),
        Form::Json => report::object(&site, args, Some(&step)),
        Form::Script => script(std::slice::from_ref(&step)),
    });
    Ok(Exit::Ok)
}

pub(super) async fn status(args: &TargetArgs, from: &str, form: Form) -> Result<Exit, MigrateError> {
    let site = Site::look(args, from).await?;
    print(&if form == Form::Json { report::object(&site, args, None) } else { report::status(&site, args) });
    Ok(if site.attention().is_some() { Exit::Failed } else { Exit::Ok })
}
