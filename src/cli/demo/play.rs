//! The relay, the shop and the consumer, from the first order to the last event.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::super::args::DemoArgs;
use super::super::print_message;
use super::consumer::Consumer;
use super::database::connect;
use super::error::Error;
use super::intro::Intro;
use super::names::Names;
use super::screen::Screen;
use super::servers::{Broker, Database};
use super::shop::Shop;
use super::summary::{Book, commit_to_ack};
use super::writer::{Statements, Writer};
use crate::cli::run::assemble::Assembly;
use crate::error::Exit;
use crate::http::Server;
use crate::relay::{Control, Relay, Target};
use crate::telemetry::{Limits, Metrics, Phase, Status};

/// A free port of loopback.
const HTTP: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Time that the last events may take to arrive.
const ARRIVAL_TIME_MAX: Duration = Duration::from_secs(10);
/// Time that the consumer may take to end: standard output may not be read any more.
const CONSUMER_TIME_MAX: Duration = Duration::from_secs(2);

/// Everything that exists before the demo begins.
pub(super) struct Play<'a> {
    pub(super) args: &'a DemoArgs,
    pub(super) names: &'a Names,
    pub(super) database: &'a Database,
    pub(super) broker: &'a Broker,
    pub(super) screen: Screen,
}

/// Running tasks. Each is stopped by its own token, in the order of the fields.
#[derive(Default)]
struct Tasks {
    writer: Task<Result<(), crate::postgres::Error>>,
    relay: Task<Result<(), crate::relay::Error>>,
    consumer: Task<()>,
    http: Task<()>,
}

struct Task<T> {
    stop: CancellationToken,
    running: JoinSet<T>,
}

impl<T> Default for Task<T> {
    fn default() -> Self {
        Self { stop: CancellationToken::new(), running: JoinSet::new() }
    }
}

/// The consumer's thread cannot be aborted, so it is stopped by its token.
impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl<T: 'static> Task<T> {
    /// Returns its result; `None` when it does not run.
    async fn ended(&mut self) -> Option<T> {
        self.running.join_next().await?.ok()
    }

    async fn stop(&mut self) -> Option<T> {
        self.stop.cancel();
        self.ended().await
    }
}

impl Play<'_> {
    /// Plays until the time is over, it is stopped, or something breaks; then waits for the last event and
    /// reports the result.
    pub(super) async fn run(&self, assembly: Assembly, stop: &CancellationToken) -> Result<Exit, Error> {
        let server = assembly.parts.postgres.server.clone();
        let metrics = Metrics::new(&assembly.info);
        let status = Status::new(Limits::default(), Instant::now());
        let (book, mut tasks) = (Book::default(), Tasks::default());
        let http = self.serve(&mut tasks, status.clone(), metrics.clone()).await?;
        let consumer = Consumer::open(self.broker, &self.names.topic(), book.clone(), self.screen.clone())?;
        let ready = consumer.ready();
        let token = tasks.consumer.stop.clone();
        tasks.consumer.running.spawn_blocking(move || consumer.run(&token));
        let relay = Relay::new(Arc::new(assembly.parts), status.clone(), metrics.clone());
        tasks.relay.running.spawn_local(until_stopped(relay, tasks.relay.stop.clone()));

        let played = async {
            if !streaming(&status, &ready, &mut tasks, stop).await? {
                return Ok(());
            }
            let sql = connect(&server).await?;
            let version_num = sql.server().await?.version_num;
            let Self { database, broker, names, .. } = *self;
            let intro = Intro { database, broker, names, version_num, status: http };
            print_message(&intro.text(self.screen.colours_talk()));
            self.open_shop(&mut tasks, sql, book.clone());
            self.until_over(&mut tasks, stop).await
        };
        let outcome = played.await;
        let finished = tasks.finish(&book).await;
        let acknowledged = metrics.encode().ok().and_then(|page| commit_to_ack(&page));
        outcome.and(finished)?;
        let summary = book.summary(acknowledged);
        print_message(&format!("\n{summary}"));
        Ok(if summary.is_sound() { Exit::Ok } else { Exit::Failed })
    }

    async fn serve(&self, tasks: &mut Tasks, status: Status, metrics: Metrics) -> Result<SocketAddr, Error> {
        let failed = |error| Error::io("serving the status page", error);
        let server = Server::bind(self.args.http.unwrap_or(HTTP), status, metrics).await.map_err(failed)?;
        let addr = server.local_addr().map_err(failed)?;
        tasks.http.running.spawn(server.serve(tasks.http.stop.clone()));
        Ok(addr)
    }

    fn open_shop(&self, tasks: &mut Tasks, sql: crate::postgres::Sql, book: Book) {
        let (statements, shop) = (Statements::new(self.names), Shop::new(fastrand::Rng::new()));
        let writer = Writer { sql, statements, shop, book, screen: self.screen.clone() };
        tasks.writer.running.spawn(writer.run(self.args.rate, tasks.writer.stop.clone()));
    }

    async fn until_over(&self, tasks: &mut Tasks, stop: &CancellationToken) -> Result<(), Error> {
        let over = async {
            match self.args.time {
                Some(time) => sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            // 1: a failure is reported, also when the demo is over at the same moment.
            Some(Err(error)) = tasks.relay.ended() => Err(error.into()),
            Some(Err(error)) = tasks.writer.ended() => Err(error.into()),
            // 2: each of these ends it.
            () = stop.cancelled() => Ok(()),
            () = over => Ok(()),
            () = self.screen.closed() => Ok(()),
        }
    }
}

async fn until_stopped(relay: Relay, stop: CancellationToken) -> Result<(), crate::relay::Error> {
    let control = Control::default();
    let mut running = std::pin::pin!(relay.run(&control));
    tokio::select! {
        biased;
        // 1: a relay that has ended needs no stop.
        outcome = &mut running => return outcome,
        // 2: the stop, after which it drains.
        () = stop.cancelled() => control.set(Target::Stop),
    }
    running.await
}

/// Waits until the relay reads from its slot, as only what is written from then on is sent, and the consumer
/// from its partitions. Returns false when it is stopped before.
async fn streaming(
    status: &Status,
    ready: &CancellationToken,
    tasks: &mut Tasks,
    stop: &CancellationToken,
) -> Result<bool, Error> {
    let mut state = status.subscribe();
    let streams = async {
        // The sender lives as long as this receiver.
        drop(state.wait_for(|state| state.phase == Phase::Streaming).await);
        ready.cancelled().await;
    };
    tokio::select! {
        biased;
        // 1: a failure is reported.
        Some(Err(error)) = tasks.relay.ended() => Err(error.into()),
        // 2: after a stop it does not matter whether it streams.
        () = stop.cancelled() => Ok(false),
        () = streams => Ok(true),
    }
}

impl Tasks {
    /// Finishes upstream first: no new orders, then everything in flight arrives, then the relay confirms and
    /// ends.
    async fn finish(&mut self, book: &Book) -> Result<(), Error> {
        let written = self.writer.stop().await;
        if !self.relay.running.is_empty() {
            book.completed(ARRIVAL_TIME_MAX).await;
        }
        let relayed = self.relay.stop().await;
        self.consumer.stop.cancel();
        let late = timeout(CONSUMER_TIME_MAX, self.consumer.ended()).await.is_err();
        if late {
            tracing::warn!("standard output is not read: the consumer does not end");
        }
        self.http.stop().await;
        if let Some(Err(error)) = relayed {
            return Err(error.into());
        }
        if let Some(Err(error)) = written {
            return Err(error.into());
        }
        Ok(())
    }
}
