//! `outboxd run`, and the parts built from a configuration.

pub(super) mod assemble;
pub(super) mod registries;
mod service_manager;
pub(super) mod spans;
mod start_error;

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::args::RunArgs;
use super::shell::signals::Signals;
use super::{fail, failure};
use crate::cli::run::assemble::{Assembly, assemble};
use crate::cli::run::service_manager::ServiceManager;
use crate::cli::run::start_error::StartError;
use crate::config::NoticeKind;
use crate::error::Exit;
use crate::http::Server;
use crate::relay::{Control, Relay, Target};
use crate::telemetry::{Limits, LogOptions, Logs, Metrics, Status, StatusLine};

/// Limits of the time in which collected data is still sent after the relay has ended: what
/// `outboxd.shutdown.timeout.ms` leaves, but not more than the one and not less than the other.
const LAST_WORDS_MAX: Duration = Duration::from_secs(5);
const LAST_WORDS_MIN: Duration = Duration::from_millis(500);

/// Runs `outboxd run`.
pub(super) fn run(args: &RunArgs) -> Exit {
    let mut line = StatusLine::hidden();
    let log = LogOptions::from_env(args.log);
    failure::follow_log(log.format);
    let logs = match Logs::start(&log, &line) {
        Ok(logs) => logs,
        Err(error) => return fail(&error),
    };
    let assembly = match assemble(&args.config) {
        Ok(assembly) => assembly,
        Err(error) => return fail(&error),
    };
    for notice in &assembly.notices {
        match notice.kind {
            NoticeKind::Default => tracing::info!("{notice}"),
            NoticeKind::Assumption | NoticeKind::Ignored => tracing::warn!("{notice}"),
        }
    }
    let unacknowledged_age_max = assembly.parts.relay.guard.unacknowledged_max;
    let limits = Limits { unacknowledged_age_max, ..Limits::default() };
    let status = Status::new(limits, Instant::now());
    let exit = match line.show(status.clone(), assembly.route()).and_then(|()| runtime()) {
        Ok(runtime) => {
            let exit = runtime.block_on(relay(assembly, args.http, status));
            // A broker that is being asked on a blocking thread may not answer for seconds.
            runtime.shutdown_background();
            exit
        }
        Err(error) => fail(&StartError::Runtime(error)),
    };
    drop(line);
    drop(logs);
    exit
}

/// Creates the runtime. One thread for the loop: it hands bytes from the socket to librdkafka, whose own
/// threads do the sending.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

async fn relay(assembly: Assembly, http: Option<SocketAddr>, status: Status) -> Exit {
    let metrics = Metrics::new(&assembly.info);
    let (control, all_done, mut tasks) = (Control::default(), CancellationToken::new(), JoinSet::new());
    if let Some(addr) = http {
        match Server::bind(addr, status.clone(), metrics.clone()).await {
            Ok(server) => drop(tasks.spawn(server.serve(all_done.clone()))),
            Err(source) => return fail(&StartError::Http { addr, source }),
        }
    }
    let mut signals = match Signals::install() {
        Ok(signals) => signals,
        Err(error) => return fail(&StartError::Signals(error)),
    };
    if let Some(exporter) = assembly.exporter {
        tasks.spawn(exporter.run(metrics.clone(), all_done.clone()));
    }
    let shutdown_timeout = assembly.parts.relay.shutdown_timeout;
    let stopping = CancellationToken::new();
    match ServiceManager::from_env() {
        Ok(None) => {}
        Ok(Some(manager)) => {
            let (stopping, ended) = (stopping.clone(), all_done.clone());
            tasks.spawn(manager.run(status.clone(), shutdown_timeout, stopping, ended));
        }
        Err(error) => tracing::warn!(%error, "cannot report the state to the socket of NOTIFY_SOCKET"),
    }
    let asked = Cell::new(None);
    let relay = Relay::new(Arc::new(assembly.parts), status, metrics);
    let exit = tokio::select! {
        biased;
        // 1: an end that has come is the result, also beside a second signal.
        outcome = relay.run(&control) => outcome.map_or_else(|error| fail(&error), |()| {
            tracing::info!("stopped");
            Exit::Ok
        }),
        // 2: the second signal does not wait for it.
        () = signals.second(|| {
            asked.set(Some(Instant::now()));
            control.set(Target::Stop);
            stopping.cancel();
        }) => {
            tracing::warn!("aborted by a second signal: unconfirmed rows will be sent again");
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
