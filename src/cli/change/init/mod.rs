//! `outboxd init`: finds the outbox, or uses the tables that are named, writes the configuration, and creates missing objects.
//!
//! ```text
//! given (arguments, files) ─▶ found ─ shape, mark (the table's columns) ─▶ proposal (Debezium's keys) ─┐
//!                          └▶ tables (--tables) ───────────────────────────────────────────────────────┤
//!                                                                                                      ▼
//!                                     objects, topics (statements, and which of them are done) ─────▶ plan ─▶ report ─▶ made
//! ```

mod args;
mod error;
mod file;
mod found;
mod given;
mod mark;
mod named;
mod objects;
mod outbox;
mod plan;
mod proposal;
mod report;
mod role;
mod shape;
mod tables;
mod topics;

pub(in crate::cli) use args::InitArgs;
pub(in crate::cli) use mark::Mark;
pub(in crate::cli) use shape::marks_among;

use error::InitError;
use given::Given;
use plan::Plan;

use crate::cli::shell::ask::{Answer, agreed};
use crate::cli::shell::sql::open;
use crate::cli::shell::steps;
use crate::cli::shell::steps::Database;
use crate::cli::{asynchronously, print, print_message};
use crate::error::Exit;
use crate::postgres::Sql;
use crate::relay::check_server;

/// `application_name` of the command's sessions in `pg_stat_activity`.
const APPLICATION: &str = "outboxd init";

/// Runs `outboxd init`.
pub(in crate::cli) fn init(args: InitArgs) -> Exit {
    asynchronously(work(args)).unwrap_or_else(|exit| exit)
}

async fn work(args: InitArgs) -> Result<Exit, InitError> {
    let given = Given::of(&args)?;
    let sql = open(&given.server, APPLICATION).await?;
    // The command creates objects, so the server must be the primary.
    check_server(&sql.server().await?, false)?;
    let plan = Plan::make(&args, &given, &sql).await?;
    if args.print_sql {
        print(&steps::script(&plan.steps));
        return Ok(Exit::Ok);
    }
    if plan.written.is_some() {
        file::check_folder(&args.file())?;
    }
    let into = args.file().display().to_string();
    if !args.json {
        print(&report::lines(&plan, &given, &into));
    }
    let answer = if plan.is_done() {
        print_message("nothing to do");
        None
    } else {
        Some(agreed("make it?", args.yes, "makes it").await)
    };
    if answer == Some(Answer::Yes) {
        make(&args, &given, &plan, &sql).await?;
    }
    if args.json {
        print(&format!("{}\n", report::object(&plan, answer != Some(Answer::No))));
    }
    Ok(answer.map_or(Exit::Ok, Answer::exit))
}

/// Creates all objects, first those that can be refused. The file is last: as long as it does not exist, everything is
/// checked again.
async fn make(args: &InitArgs, given: &Given, plan: &Plan, sql: &Sql) -> Result<(), InitError> {
    topics::check(&plan.parts, args, &plan.topics.missing).await?;
    steps::apply(Database { sql, server: &given.server }, &plan.steps).await?;
    topics::make(&plan.parts, args, &plan.topics.missing).await?;
    if let Some(settings) = &plan.written {
        let path = args.file();
        file::write(&path, settings)?;
        let into = path.display();
        print_message(&format!("wrote {into}{}", file::form(&path)));
        if !given.has_brokers {
            print_message("  bootstrap.servers is not in it: add it, or set OUTBOXD_BOOTSTRAP_SERVERS");
        }
        if settings.iter().any(|(_, value)| value.contains("OUTBOXD_DATABASE_PASSWORD")) {
            print_message("  the password is not in it: set OUTBOXD_DATABASE_PASSWORD");
        }
        match plan.poller().map(|poller| poller.mark.migrate_command(&into.to_string())) {
            None => print_message(&format!("next: outboxd check -c {into}; outboxd run -c {into}")),
            Some(Some(command)) => print_message(&format!("next: {command}")),
            Some(None) => {
                print_message(
                    "next: stop the program that polls the table, and run init again with --no-poller",
                );
            }
        }
    }
    Ok(())
}
