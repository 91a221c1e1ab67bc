//! `outboxd migrate plan | start | status | finish | rollback`: from a program that polls the table to outboxd, and back.
//!
//! Nothing is lost, sent twice or reordered at the seam, because each row says by its own content, from its insert on, which of
//! the two it belongs to: a trigger gives new rows the mark of what was sent, so that the poller does not see them, and the
//! publication has exactly the rows that had the mark when they were inserted. The progress is what is there (publication, slot, trigger)
//! and a comment on the publication, so each command can be killed and run again.

mod args;
mod error;
mod poller;

pub(super) use args::MigrateArgs;

use args::MigrateCommand;

use super::asynchronously;
use crate::error::Exit;

/// `outboxd migrate`.
pub(super) fn migrate(args: &MigrateArgs) -> Exit {
    let work = async {
        match &args.command {
            MigrateCommand::Plan(args) => poller::plan(args).await,
            MigrateCommand::Start(args) => poller::start(args).await,
            MigrateCommand::Status(args) => poller::status(args).await,
            MigrateCommand::Finish(args) => poller::finish(args).await,
            MigrateCommand::Rollback(args) => poller::rollback(args).await,
        }
    };
    asynchronously(work).unwrap_or_else(|exit| exit)
}
