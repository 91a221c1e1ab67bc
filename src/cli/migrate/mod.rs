//! `outboxd migrate plan | start | status | finish | rollback`: from a program that polls the table to outboxd, and back.
//!
//! Nothing is lost, sent twice or reordered at the seam, because each row says by its own content, from its insert on, which of
//! the two it belongs to: a trigger gives new rows the mark of what was sent, so that the poller does not see them, and the
//! publication has exactly the rows that had the mark when they were inserted. The progress is what is there (publication, slot, trigger)
//! and a comment on the publication, so each command can be killed and run again.

mod args;
mod debezium;
mod error;
mod last_run;
mod outcome;
mod poller;
mod taken;

pub(super) use args::MigrateArgs;

use std::sync::Arc;
use std::time::Duration;

use args::{From, MigrateCommand, PlanArgs, StatusArgs};
use error::MigrateError;
use taken::Form;

use super::asynchronously;
use crate::error::Exit;
use crate::postgres::Sql;
use crate::relay::{self, RelayParts, kept_position};

/// How long the brokers may take to say whether there was such a slot before.
const PATIENCE: Duration = Duration::from_secs(10);

/// `outboxd migrate`.
pub(super) fn migrate(args: &MigrateArgs) -> Exit {
    let work = async {
        match &args.command {
            MigrateCommand::Plan(args) => match args.target.from() {
                From::Slot(from) => taken::plan(&args.target, from, plan_form(args)).await,
                From::Connector(from) => debezium::look(&args.target, from, plan_form(args), true).await,
                From::Poller => poller::plan(args).await,
            },
            MigrateCommand::Start(args) => match args.target.from() {
                From::Slot(from) => taken::start(args, from).await,
                From::Connector(from) => debezium::start(args, from).await,
                From::Poller => poller::start(args).await,
            },
            MigrateCommand::Status(args) => match args.target.from() {
                From::Slot(from) => taken::status(&args.target, from, status_form(args)).await,
                From::Connector(from) => debezium::look(&args.target, from, status_form(args), false).await,
                From::Poller => poller::status(args).await,
            },
            MigrateCommand::Finish(args) => match args.target.from() {
                From::Slot(from) => taken::finish(args, from).await,
                From::Connector(from) => debezium::finish(args, from).await,
                From::Poller => poller::finish(args).await,
            },
            MigrateCommand::Rollback(args) => match args.target.from() {
                From::Slot(from) => taken::rollback(args, from).await,
                From::Connector(from) => debezium::rollback(args, from).await,
                From::Poller => poller::rollback(args).await,
            },
        }
    };
    asynchronously(work).unwrap_or_else(|exit| exit)
}

const fn plan_form(args: &PlanArgs) -> Form {
    match (args.json, args.print_sql) {
        (true, _) => Form::Json,
        (_, true) => Form::Script,
        (false, false) => Form::Text,
    }
}

const fn status_form(args: &StatusArgs) -> Form {
    if args.json { Form::Json } else { Form::Text }
}

/// How outboxd is to be started. It keeps where a slot of this name was, and would take the new one for one that somebody has moved.
async fn first_run(parts: &Arc<RelayParts>, sql: &Sql) -> Result<String, MigrateError> {
    let run = "outboxd run -c FILE -X snapshot.mode=no_data".to_owned();
    // What cannot be read now is told by that start.
    let kept = kept_position(Arc::clone(parts), PATIENCE).await.ok().flatten();
    let slot = sql.slot(&parts.postgres.slot.name).await?;
    let stands = slot.and_then(|slot| slot.confirmed_flush_lsn);
    Ok(match (kept, stands) {
        (Some(kept), Some(stands)) if kept.phase == relay::Phase::Streaming && kept.lsn < stands => {
            format!("{run} -X outboxd.position.accept={stands} (once: there was a slot of this name before)")
        }
        _ => run,
    })
}
