//! Off another program that reads a slot of its own by `pgoutput` (Sequin, go-pq-cdc): its slot is copied where it stands, and kept until
//! the end, so that the other can go on from where outboxd was.
//!
//! What it had sent and not confirmed comes again, as when it starts again itself.

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
use crate::cli::steps::script;
use crate::error::Exit;

/// What is printed.
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
