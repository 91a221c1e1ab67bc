//! `outboxd demo`: a whole system on one machine.
//!
//! ```text
//! writer ── orders + outbox, one transaction ──▶ PostgreSQL ──▶ relay ──▶ Kafka ──▶ consumer ──▶ standard output
//!    └───────────── ids of what it commits ────▶ book ◀── ids of what arrives ─────────┘
//! ```
//!
//! PostgreSQL is a throwaway server and Kafka librdkafka's in-process broker, unless the user's own are named; then
//! everything created there is dropped at the end. The relay is the real one, with a real configuration.

mod consumer;
mod database;
mod error;
mod intro;
mod names;
mod play;
mod screen;
mod servers;
mod shop;
mod show;
mod summary;
mod writer;

use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::LocalSet;
use tokio_util::sync::CancellationToken;

use super::args::DemoArgs;
use super::run::assemble::assemble_sources;
use super::shell::signals::Signals;
use super::{fail, print_message};
use crate::error::Exit;
use crate::telemetry::{FILTER_VARIABLE, LogFormat, LogOptions, Logs, StatusLine};
use error::Error;
use names::Names;
use play::Play;
use screen::Screen;
use servers::{Broker, Database};

/// Log filter: lines between the records would disturb. `OUTBOXD_LOG` enables them.
const LOG_FILTER: &str = "error";
/// Longest time for which an abandoned fetch may delay the end.
const ABANDONED_FETCH_TIME_MAX: Duration = Duration::from_millis(100);

/// Runs `outboxd demo`.
pub(super) fn demo(args: &DemoArgs) -> Exit {
    let logs = match start_logs(args) {
        Ok(logs) => logs,
        Err(exit) => return exit,
    };
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&Error::io("starting the runtime", error)),
    };
    // The relay stays on its thread, as in `outboxd run`.
    let exit = LocalSet::new().block_on(&runtime, until_signalled(args));
    runtime.shutdown_timeout(ABANDONED_FETCH_TIME_MAX);
    drop(logs);
    exit.unwrap_or_else(|error| fail(&error))
}

fn start_logs(args: &DemoArgs) -> Result<Logs, Exit> {
    let mut options = LogOptions::from_env(Some(LogFormat::Text));
    options.colour &= !args.no_color;
    if std::env::var_os(FILTER_VARIABLE).is_none() {
        LOG_FILTER.clone_into(&mut options.filter);
    }
    Logs::start(&options, &StatusLine::hidden()).map_err(|error| fail(&error))
}

async fn until_signalled(args: &DemoArgs) -> Result<Exit, Error> {
    let stop = CancellationToken::new();
    let mut signals = Signals::install().map_err(|error| Error::io("catching signals", error))?;
    tokio::select! {
        biased;
        // 1: a completed end is the result, also with a second signal.
        exit = with_servers(args, &stop) => exit,
        // 2: the second signal does not wait for it.
        () = signals.second(|| stop.cancel()) => {
            if args.postgres.is_some() || args.kafka.is_some() {
                print_message("aborted: what the demo made on your servers is still there; the next start names it");
            }
            Ok(Exit::Interrupted)
        }
    }
}

/// Starts the servers, runs the demo, and stops them regardless of its outcome.
async fn with_servers(args: &DemoArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    let names = Names::new(args.postgres.is_some(), args.kafka.is_some());
    let Some(database) = Database::start(args.postgres.as_deref(), stop).await? else {
        return Ok(Exit::Ok);
    };
    let broker = match Broker::start(args.kafka.as_deref(), names.topic()).await {
        Ok(broker) => broker,
        Err(error) => {
            database.end().await;
            return Err(error);
        }
    };
    let outcome = with_tables(args, &names, &database, &broker, stop).await;
    let deleted = broker.end().await;
    database.end().await;
    let exit = outcome?;
    deleted?;
    Ok(exit)
}

/// Makes the tables, plays, and drops them again where the server stays.
async fn with_tables(
    args: &DemoArgs,
    names: &Names,
    database: &Database,
    broker: &Broker,
    stop: &CancellationToken,
) -> Result<Exit, Error> {
    let assembly = assemble_sources(&names.sources(&database.address, &broker.bootstrap_servers))?;
    let server = assembly.parts.postgres.server.clone();
    if database.is_throwaway() {
        database::create_database(&server).await?;
    }
    let sql = database::connect(&server).await?;
    if !database.is_throwaway() {
        database::refuse_existing(&sql).await?;
    }
    database::create(&sql, names).await?;
    let screen = Screen::new(args.no_color);
    let play = Play { args, names, database, broker, screen };
    let outcome = play.run(assembly, stop).await;
    if database.is_throwaway() {
        return outcome;
    }
    match (outcome, database::remove(&sql, names).await) {
        (Ok(exit), Ok(())) => Ok(exit),
        (Ok(_), Err(error)) => Err(error.into()),
        (Err(error), Ok(())) => Err(error),
        (Err(error), Err(left)) => {
            print_message(&crate::error::report(&left));
            Err(error)
        }
    }
}
