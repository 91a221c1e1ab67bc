use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::args::RunArgs;
use super::assemble::{Assembly, assemble};
use super::signals::Signals;
use super::{fail, say};
use crate::error::{Diagnose as _, Exit, causes};
use crate::http::Server;
use crate::relay::{Control, Error, Relay, Target};
use crate::telemetry::{Limits, LogFormat, LogOptions, Logs, Metrics, Status, StatusLine};

/// For how long what has been collected is still told to others after the relay has ended: as long as
/// `outboxd.shutdown.timeout.ms` leaves, but no longer than the one and no shorter than the other.
const LAST_WORDS_MAX: Duration = Duration::from_secs(5);
const LAST_WORDS_MIN: Duration = Duration::from_millis(500);

/// `outboxd run`.
pub(super) fn run(args: &RunArgs) -> Exit {
    let mut line = StatusLine::hidden();
    let log = LogOptions::from_env(args.log);
    let logs = match Logs::start(&log, &line) {
        Ok(logs) => logs,
        Err(error) => return fail(&error),
    };
    let assembly = match assemble(&args.config) {
        Ok(assembly) => assembly,
        Err(error) => return fail(&error),
    };
    for notice in &assembly.notices {
        tracing::warn!("{notice}");
    }
    let unacknowledged_age_max = assembly.parts.relay.guard.unacknowledged_max;
    let limits = Limits { unacknowledged_age_max, ..Limits::default() };
    let status = Status::new(limits, Instant::now());
    let exit = match line.show(status.clone(), assembly.route()).and_then(|()| runtime()) {
        Ok(runtime) => {
            let exit = runtime.block_on(relay(assembly, args.http, log.format, status));
            // A broker that is being asked on a blocking thread may not answer for seconds.
            runtime.shutdown_background();
            exit
        }
        Err(error) => broken("the relay cannot be started", &error),
    };
    drop(line);
    drop(logs);
    exit
}

/// One thread for the loop: it hands bytes from the socket to librdkafka, whose own threads do the sending.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

async fn relay(assembly: Assembly, http: Option<SocketAddr>, log: LogFormat, status: Status) -> Exit {
    let metrics = Metrics::new(&assembly.info);
    let (control, all_done, mut tasks) = (Control::default(), CancellationToken::new(), JoinSet::new());
    if let Some(addr) = http {
        match Server::bind(addr, status.clone(), metrics.clone()).await {
            Ok(server) => drop(tasks.spawn(server.serve(all_done.clone()))),
            Err(error) => {
                let exit = broken(&format!("--http {addr} cannot be served"), &error);
                if error.kind() == io::ErrorKind::AddrInUse {
                    say("  to fix: give --http another port, or stop what listens at this one");
                }
                return exit;
            }
        }
    }
    let mut signals = match Signals::install() {
        Ok(signals) => signals,
        Err(error) => return broken("signals cannot be caught", &error),
    };
    if let Some(exporter) = assembly.exporter {
        tasks.spawn(exporter.run(metrics.clone(), all_done.clone()));
    }
    let shutdown_timeout = assembly.parts.relay.shutdown_timeout;
    let asked = Cell::new(None);
    let relay = Relay::new(Arc::new(assembly.parts), status, metrics);
    let exit = tokio::select! {
        outcome = relay.run(&control) => outcome.map_or_else(|error| stopped(&error, log), |()| {
            tracing::info!("stopped");
            Exit::Ok
        }),
        () = signals.second(|| {
            asked.set(Some(Instant::now()));
            control.set(Target::Stop);
        }) => {
            tracing::warn!("aborted by a second signal: what was not confirmed will be sent again");
            Exit::Interrupted
        }
    };
    all_done.cancel();
    let since = asked.get().unwrap_or_else(Instant::now);
    let left = shutdown_timeout.saturating_sub(since.elapsed()).max(LAST_WORDS_MIN);
    let patience = if exit == Exit::Interrupted { Duration::ZERO } else { left.min(LAST_WORDS_MAX) };
    let ended = async { while tasks.join_next().await.is_some() {} };
    if timeout(patience, ended).await.is_err() {
        tasks.shutdown().await;
    }
    exit
}

/// The one place where the error that ended the relay is told: as a log line where logs are read by machines, else as
/// a person reads it.
fn stopped(error: &Error, format: LogFormat) -> Exit {
    let exit = error.exit();
    match format {
        LogFormat::Text => return fail(error),
        LogFormat::Json => {
            let because =
                causes(error).map(ToString::to_string).reduce(|all, cause| format!("{all}: {cause}"));
            tracing::error!(because, to_fix = error.cure(), exit_code = exit.code(), "{error}");
        }
    }
    exit
}

fn broken(what: &str, error: &io::Error) -> Exit {
    say(&format!("error: {what}\n  because: {error}"));
    Exit::Failed
}
