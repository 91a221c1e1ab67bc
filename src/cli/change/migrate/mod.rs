//! `outboxd migrate plan | start | status | finish | rollback`: from another program that sends the rows to outboxd, and back.
//!
//! With a program that polls the table, no event is lost, sent twice or reordered at the switch, because each row shows by its own
//! content, from its insert on, which of the two sends it. A trigger gives new rows the mark of sent rows, so that the poller does
//! not read them, and the publication has exactly the rows that had the mark when they were inserted. The progress is read from the
//! existing objects (publication, slot, trigger) and a comment on the publication, so each command can be killed and run again.

mod args;
mod debezium;
mod error;
mod last_run;
mod outcome;
mod poller;
mod taken;

pub(in crate::cli) use args::MigrateArgs;

use std::sync::Arc;
use std::time::Duration;

use args::{From, MigrateCommand, PlanArgs, StatusArgs};
use error::MigrateError;
use taken::Form;

use crate::cli::asynchronously;
use crate::error::Exit;
use crate::postgres::Sql;
use crate::relay::{self, RelayParts, stored_position};

/// Time that the brokers may take to report whether there was such a slot before.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs `outboxd migrate`.
pub(in crate::cli) fn migrate(args: &MigrateArgs) -> Exit {
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

/// Returns the command of the first start. outboxd stores the position of a slot of this name, and would mistake a new
/// slot for one that has moved.
async fn first_run(parts: &Arc<RelayParts>, sql: &Sql) -> Result<String, MigrateError> {
    let run = "outboxd run -c FILE -X snapshot.mode=no_data".to_owned();
    // An unreadable position is reported by that start.
    let kept = stored_position(Arc::clone(parts), PATIENCE).await.ok().flatten();
    let slot = sql.slot(&parts.postgres.slot.name).await?;
    let stands = slot.and_then(|slot| slot.confirmed_flush_lsn);
    Ok(match (kept, stands) {
        (Some(kept), Some(stands)) if kept.phase == relay::Phase::Streaming && kept.lsn < stands => {
            format!("{run} -X outboxd.position.accept={stands} (once: there was a slot of this name before)")
        }
        _ => run,
    })
}
