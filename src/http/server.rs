//! The status port.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{self, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::routes::{Shown, router};
use crate::telemetry::{Metrics, SAMPLE_INTERVAL, Status};

/// Most clients that are served at a time; more wait to be accepted.
const CONNECTIONS_MAX: usize = 64;

/// Time that a request's head may take to arrive. Short, because silent clients keep others out while they
/// last, and a probe that is kept out gets the process killed.
const HEAD_TIME_MAX: Duration = Duration::from_secs(2);

/// Time that one connection may last, including its one answer. A client that reads slower is disconnected.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(10);

/// The longest request head that is read. hyper wants 8 KiB at least.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Pause when the system refuses a connection, for want of file descriptors as a rule.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The status port, bound and not yet served.
#[derive(Debug)]
pub(crate) struct Server {
    listener: TcpListener,
    shown: Shown,
}

impl Server {
    /// Binds the port.
    ///
    /// # Errors
    /// When the address is not ours or is taken.
    pub(crate) async fn bind(addr: SocketAddr, status: Status, metrics: Metrics) -> io::Result<Self> {
        let shown = Shown { status, metrics, history: Arc::default() };
        Ok(Self { listener: TcpListener::bind(addr).await?, shown })
    }

    /// Returns the address on which it listens: with port 0 the port that was chosen.
    ///
    /// # Errors
    ///
    /// When the system does not return it.
    #[cfg(any(test, feature = "demo"))]
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the stop, which should be last of all: a relay that drains still answers probes.
    pub(crate) async fn serve(self, stop: CancellationToken) {
        let (mut connections, router) = (JoinSet::new(), router(self.shown.clone()));
        let mut samples = time::interval(SAMPLE_INTERVAL);
        samples.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                biased;
                // 1: a stop waits for nothing.
                () = stop.cancelled() => break,
                // 2: make room.
                Some(_) = connections.join_next() => {}
                // 3: what is not remembered now is never known.
                _ = samples.tick() => self.shown.remember(),
                // 4: let the next one in.
                accepted = self.listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                    Ok((stream, _)) => drop(connections.spawn(answer(stream, router.clone()))),
                    Err(error) => {
                        tracing::debug!(%error, "status port refused a connection");
                        time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        connections.shutdown().await;
    }
}

/// Answers one request. One is enough: probes and scrapes come seconds apart, and a connection that is closed cannot be
/// held open. A request's body is never read.
async fn answer(stream: TcpStream, router: Router) {
    let connection = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    match time::timeout(CONNECTION_TIME_MAX, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::trace!(%error, "status port client went away"),
        Err(_) => tracing::debug!("status port client was too slow"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::probe;
    use super::*;
    use crate::telemetry::{Component, ConfigInfo, Limits, Phase};

    const PATIENCE: Duration = Duration::from_secs(5);

    /// Runs `client` against a served port and joins the server.
    fn serve<F: Future<Output = ()>>(status: Status, client: impl FnOnce(SocketAddr) -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let port = SocketAddr::from(([127, 0, 0, 1], 0));
            let server = Server::bind(port, status, Metrics::new(&ConfigInfo::default())).await.unwrap();
            let addr = server.local_addr().unwrap();
            let stop = CancellationToken::new();
            tokio::join!(server.serve(stop.clone()), async {
                client(addr).await;
                stop.cancel();
            });
        });
    }

    fn status(phase: Phase) -> Status {
        let now = Instant::now();
        let status = Status::new(Limits::default(), now);
        Component::ALL.into_iter().for_each(|component| status.up(component, now));
        status.enter(phase);
        status
    }

    async fn exchange(addr: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[test]
    fn every_path_has_its_status_code() {
        let cases = [
            // path, while connecting, while streaming
            ("/", 200, 200),
            ("/status", 200, 200),
            ("/livez", 200, 200),
            ("/q/health/live", 200, 200),
            ("/readyz", 503, 200),
            ("/q/health/ready", 503, 200),
            ("/q/health", 503, 200),
            ("/startupz", 503, 200),
            ("/q/health/started", 503, 200),
            ("/health", 503, 200),
            ("/metrics", 200, 200),
            ("/q/metrics", 200, 200),
            ("/debug/pprof", 404, 404),
        ];
        for (phase, column) in [(Phase::Connecting, 0), (Phase::Streaming, 1)] {
            serve(status(phase), async |addr| {
                for (path, connecting, streaming) in cases {
                    let (code, _) = probe(addr, path, PATIENCE).await.unwrap();
                    assert_eq!(code, [connecting, streaming][column], "{path}");
                }
            });
        }
    }

    #[test]
    fn metrics_show_the_state_of_the_moment() {
        serve(status(Phase::Streaming), async |addr| {
            let (_, page) = probe(addr, "/metrics", PATIENCE).await.unwrap();
            assert!(page.contains("outboxd_kafka_connected 1\n") && page.ends_with("# EOF\n"));
        });
    }

    #[test]
    fn only_reading_is_allowed() {
        serve(status(Phase::Streaming), async |addr| {
            for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
                let answer = exchange(addr, &format!("{method} /readyz HTTP/1.1\r\nHost: x\r\n\r\n")).await;
                assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
            }
            let answer = exchange(addr, "HEAD /readyz HTTP/1.1\r\nHost: x\r\n\r\n").await;
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\n"), "{answer}");
        });
    }

    #[test]
    fn one_connection_gets_one_answer() {
        serve(status(Phase::Streaming), async |addr| {
            let request = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n".repeat(2);
            let answer = exchange(addr, &request).await;
            assert_eq!(answer.matches("HTTP/1.1 200").count(), 1, "{answer}");
        });
    }

    #[test]
    fn what_is_no_request_is_refused() {
        serve(status(Phase::Streaming), async |addr| {
            let answer = exchange(addr, "\x16\x03\x01 hello\r\n\r\n").await;
            assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer}");
            let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(2 * HEAD_BYTES_MAX));
            let answer = exchange(addr, &long).await;
            assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
        });
    }

    #[test]
    fn silent_clients_do_not_keep_probes_out() {
        serve(status(Phase::Streaming), async |addr| {
            let mut silent = Vec::new();
            for _ in 0..CONNECTIONS_MAX {
                silent.push(TcpStream::connect(addr).await.unwrap());
            }
            assert_eq!(probe(addr, "/livez", PATIENCE).await.unwrap().0, 200);
        });
    }

    #[test]
    fn a_stop_does_not_wait_for_clients() {
        serve(status(Phase::Streaming), async |addr| {
            let mut slow = TcpStream::connect(addr).await.unwrap();
            slow.write_all(b"GET /liv").await.unwrap();
            probe(addr, "/livez", PATIENCE).await.unwrap();
        });
    }
}
