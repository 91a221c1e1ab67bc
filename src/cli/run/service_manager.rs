//! The protocol of `Type=notify` between a service and systemd: `sd_notify(3)`.

use std::env;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process;
use std::time::{Duration, Instant};

use tokio::time::{self, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::telemetry::{NotReady, Snapshot, Status, state_in_words};

/// Pause between two messages. Each begins with what `/livez` and `/readyz` would answer at that moment.
const INTERVAL_MAX: Duration = Duration::from_secs(1);

/// Each message of a start asks for this much more time. A start lasts as long as its snapshot; one that hangs sends no message.
const START_EXTENSION: Duration = Duration::from_secs(60);

/// Time that a stop may need beyond `outboxd.shutdown.timeout.ms`.
const STOP_EXTENSION: Duration = Duration::from_secs(10);

/// Messages of a watchdog's time: systemd recommends two.
const MESSAGES_PER_WATCHDOG: u32 = 3;

/// Connection to the service manager that has started this process.
#[derive(Debug)]
pub(super) struct ServiceManager {
    socket: UnixDatagram,
    address: SocketAddr,
    /// Time after which the service manager ends a process without a sign of life; `None` without a watchdog.
    watchdog: Option<Duration>,
    is_ready: bool,
    status: String,
}

impl ServiceManager {
    /// Returns the service manager that `NOTIFY_SOCKET` names, or `None` without one.
    ///
    /// # Errors
    /// When the variable names no socket, or no socket can be created.
    pub(super) fn from_env() -> io::Result<Option<Self>> {
        let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let is_mine = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|usec| is_mine && *usec > 0);
        Self::new(name.as_bytes(), watchdog.map(Duration::from_micros)).map(Some)
    }

    fn new(name: &[u8], watchdog: Option<Duration>) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        // A service manager that does not read must not stop the relay.
        socket.set_nonblocking(true)?;
        Ok(Self { socket, address: address(name)?, watchdog, is_ready: false, status: String::new() })
    }

    /// Reports the state until `stopping`, and then that the process stops within `shutdown_timeout`; ends without that when
    /// `ended`.
    pub(super) async fn run(
        mut self,
        status: Status,
        shutdown_timeout: Duration,
        stopping: CancellationToken,
        ended: CancellationToken,
    ) {
        let interval = self.watchdog.map_or(INTERVAL_MAX, |time| {
            (time / MESSAGES_PER_WATCHDOG).clamp(Duration::from_millis(1), INTERVAL_MAX)
        });
        let mut ticks = time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                biased;
                // A signal comes before the end that it leads to.
                () = stopping.cancelled() => break,
                () = ended.cancelled() => return,
                _ = ticks.tick() => {
                    let message = self.message(&status.snapshot(), Instant::now());
                    self.send(&message);
                }
            }
        }
        let left = shutdown_timeout.saturating_add(STOP_EXTENSION).as_micros();
        self.send(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={left}\nSTATUS=stopping\n"));
    }

    /// Returns the message for a state; an empty one when there is nothing to report.
    fn message(&mut self, state: &Snapshot, now: Instant) -> String {
        let (readiness, mut message) = (state.readiness(now), String::new());
        if readiness.ready && !self.is_ready {
            self.is_ready = true;
            message.push_str("READY=1\n");
        }
        if state.is_alive(now) {
            if !self.is_ready {
                message.push_str(&format!("EXTEND_TIMEOUT_USEC={}\n", START_EXTENSION.as_micros()));
            }
            if self.watchdog.is_some() {
                message.push_str("WATCHDOG=1\n");
            }
        }
        // The phase is in the words, and a start tries each component.
        let is_news = |reason: &&NotReady| !matches!(reason, NotReady::Phase(_) | NotReady::Untried(_));
        let reasons: Vec<String> =
            readiness.reasons.iter().filter(is_news).map(ToString::to_string).collect();
        let words = [vec![state_in_words(state)], reasons].concat().join("; ").replace(['\n', '\r'], " ");
        if self.status != words {
            message.push_str(&format!("STATUS={words}\n"));
            self.status = words;
        }
        message
    }

    /// Sends a message. One that is lost is followed by the next one; the service manager judges the silence.
    fn send(&self, message: &str) {
        if message.is_empty() {
            return;
        }
        if let Err(error) = self.socket.send_to_addr(message.as_bytes(), &self.address) {
            tracing::debug!(%error, "the service manager does not read the state");
        }
    }
}

/// Reads an address as `sd_notify(3)` writes it: a path, or `@` before a name without a file.
fn address(name: &[u8]) -> io::Result<SocketAddr> {
    match name {
        #[cfg(target_os = "linux")]
        [b'@', name @ ..] => <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(Path::new(std::ffi::OsStr::from_bytes(name))),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "no path, and no @ before a name")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::{Component, Holder, Limits, Phase};

    const WATCHDOG: Duration = Duration::from_millis(30);

    fn manager(watchdog: Option<Duration>) -> (ServiceManager, UnixDatagram, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        (ServiceManager::new(path.as_os_str().as_bytes(), watchdog).unwrap(), socket, folder)
    }

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 4096];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    #[test]
    fn it_is_ready_once_and_stays_so_while_a_server_is_down() {
        let (mut manager, _socket, _folder) = manager(None);
        let now = Instant::now();
        let status = Status::new(Limits::default(), now);
        let started = manager.message(&status.snapshot(), now);
        assert_eq!(started, "EXTEND_TIMEOUT_USEC=60000000\nSTATUS=connecting\n");
        [Component::Postgres, Component::Slot, Component::Kafka]
            .into_iter()
            .for_each(|component| status.up(component, now));
        status.enter(Phase::Streaming);
        assert_eq!(manager.message(&status.snapshot(), now), "READY=1\nSTATUS=streaming\n");
        assert_eq!(manager.message(&status.snapshot(), now), "");
        status.down(Component::Kafka, "no broker\nresponds", now);
        let down = "STATUS=waiting for Kafka; kafka has been down for 2 s: no broker responds\n";
        assert_eq!(manager.message(&status.snapshot(), now + Duration::from_secs(2)), down);
        status.up(Component::Kafka, now);
        assert_eq!(manager.message(&status.snapshot(), now), "STATUS=streaming\n");
    }

    #[test]
    fn a_standby_is_ready() {
        let (mut manager, _socket, _folder) = manager(None);
        let now = Instant::now();
        let status = Status::new(Limits::default(), now);
        status.up(Component::Postgres, now);
        status.enter(Phase::StandingBy(Holder { pid: 42, application: "outboxd/orders".into() }));
        let expected = "READY=1\nSTATUS=standby: the slot belongs to pid 42 (outboxd/orders)\n";
        assert_eq!(manager.message(&status.snapshot(), now), expected);
    }

    #[test]
    fn a_loop_that_does_not_turn_sends_no_sign_of_life() {
        let (mut manager, _socket, _folder) = manager(Some(WATCHDOG));
        let now = Instant::now();
        let state = Status::streaming(now).snapshot();
        assert_eq!(manager.message(&state, now), "READY=1\nWATCHDOG=1\nSTATUS=streaming\n");
        assert_eq!(manager.message(&state, now + Duration::from_secs(30)), "WATCHDOG=1\n");
        let stalled = manager.message(&state, now + Duration::from_secs(31));
        assert_eq!(stalled, "STATUS=streaming; the loop has not turned for 31 s\n");
        // Nor does a start that hangs ask for more time.
        let (mut manager, _socket, _folder) = self::manager(Some(WATCHDOG));
        let state = Status::new(Limits::default(), now).snapshot();
        let hanging = manager.message(&state, now + Duration::from_secs(31));
        assert!(hanging.starts_with("STATUS="), "{hanging}");
    }

    #[test]
    fn messages_arrive_until_it_stops() {
        let (manager, socket, _folder) = manager(Some(WATCHDOG));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (stopping, ended) = (CancellationToken::new(), CancellationToken::new());
        let running = manager.run(
            Status::streaming(Instant::now()),
            Duration::from_secs(25),
            stopping.clone(),
            ended.clone(),
        );
        let reader = std::thread::spawn(move || {
            let ready = received(&socket);
            let alive = received(&socket);
            stopping.cancel();
            let last = loop {
                let message = received(&socket);
                if message != "WATCHDOG=1\n" {
                    break message;
                }
            };
            (ready, alive, last)
        });
        runtime.block_on(running);
        let (ready, alive, last) = reader.join().unwrap();
        assert_eq!(ready, "READY=1\nWATCHDOG=1\nSTATUS=streaming\n");
        assert_eq!(alive, "WATCHDOG=1\n");
        assert_eq!(last, "STOPPING=1\nEXTEND_TIMEOUT_USEC=35000000\nSTATUS=stopping\n");
    }

    #[test]
    fn a_service_manager_that_has_gone_stops_nothing() {
        let (manager, socket, folder) = manager(None);
        drop((socket, folder));
        manager.send("READY=1\n");
    }

    #[test]
    fn an_address_is_a_path_or_a_name() {
        let text =
            |name: &[u8]| address(name).map(|address| format!("{address:?}")).map_err(|e| e.to_string());
        assert_eq!(text(b"/run/systemd/notify").unwrap(), r#""/run/systemd/notify" (pathname)"#);
        #[cfg(target_os = "linux")]
        assert_eq!(text(b"@notify").unwrap(), r#""notify" (abstract)"#);
        for wrong in [b"notify".as_slice(), b"vsock:2:1234", b""] {
            assert_eq!(text(wrong).unwrap_err(), "no path, and no @ before a name");
        }
    }
}
