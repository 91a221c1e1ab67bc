//! The relay, and its supervisor.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::support::outbox::Outbox;
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually};

/// Text that is in a payload, and must not be in a log.
const CANARY: &str = "canary-4711";

/// One relay, or two while one of them is to take over.
pub(crate) struct Fleet {
    config: Config,
    active: Relay,
    second: Option<Relay>,
    /// The walsender that the active relay had when the second one was started.
    walsender: i32,
    /// Read by the sampler.
    pid: Arc<AtomicU32>,
    /// Relays that exited by themselves: their exit codes, and the end of their logs.
    pub(crate) left: Vec<String>,
    /// Log lines of relays that must not exist.
    pub(crate) told: Vec<String>,
}

impl Fleet {
    pub(crate) fn start(config: Config, pid: Arc<AtomicU32>) -> Self {
        let active = Relay::start(&config);
        pid.store(active.id(), Ordering::Relaxed);
        Self { config, active, second: None, walsender: 0, pid, left: Vec::new(), told: Vec::new() }
    }

    /// Starts a relay that has exited by itself again, as a supervisor does in production.
    pub(crate) fn look_after(&mut self) {
        if self.active.is_running() {
            return;
        }
        let code = self.active.wait_for_exit(DEADLINE);
        self.left.push(format!("exit {code}: {}", last_lines(&self.active.stderr())));
        self.replace();
    }

    pub(crate) fn kill(&mut self) {
        self.active.kill();
    }

    /// Changes a setting of the relays from their next start on.
    pub(crate) fn set(&mut self, key: &str, value: &str) {
        self.config = with(self.config.clone(), &[(key, value)]);
    }

    /// Starts a new relay after a kill or a stop.
    pub(crate) fn replace(&mut self) {
        let fresh = Relay::start(&self.config);
        self.become_active(fresh);
    }

    /// Sends SIGTERM and returns the exit code.
    pub(crate) fn stop(&mut self) -> i32 {
        self.active.terminate();
        self.active.wait_for_exit(DEADLINE)
    }

    pub(crate) fn pause(&mut self) {
        self.active.pause();
    }

    pub(crate) fn resume(&mut self) {
        self.active.resume();
    }

    /// Resumes the relay that was replaced while it was paused.
    pub(crate) fn resume_second(&mut self) {
        if let Some(second) = &mut self.second {
            second.resume();
        }
    }

    /// Starts a second relay, which stands by.
    pub(crate) fn start_second(&mut self, db: &Outbox) {
        let second = Relay::start(&self.config);
        second.wait_for_stderr("standing by");
        self.walsender = active_pid(db).unwrap_or_default();
        self.second = Some(second);
    }

    /// Waits until the second relay streams, and lets it be the active one. The first is the second from then on.
    pub(crate) fn swap(&mut self, db: &Outbox, within: Duration) -> Duration {
        let began = Instant::now();
        let streams = format!(
            "SELECT FROM pg_replication_slots WHERE slot_name = '{}' AND active AND active_pid <> {}",
            db.name(),
            self.walsender
        );
        eventually(within, "the second relay streams", || {
            db.try_query(&streams).is_ok_and(|rows| !rows.is_empty())
        });
        let took = began.elapsed();
        if let Some(second) = self.second.take() {
            let first = self.become_active(second);
            self.second = Some(first);
        }
        took
    }

    /// Drops the replaced relay, whatever its state is.
    pub(crate) fn drop_second(&mut self) {
        self.second = None;
    }

    /// Ends the relay that stands by.
    pub(crate) fn end_second(&mut self) {
        if let Some(mut second) = self.second.take() {
            second.terminate();
            let code = second.wait_for_exit(DEADLINE);
            if code != 0 {
                self.left.push(format!("the standby: exit {code}: {}", last_lines(&second.stderr())));
            }
            self.listen(&second);
        }
    }

    /// Makes this relay the active one and returns the one that it replaces.
    fn become_active(&mut self, relay: Relay) -> Relay {
        let old = std::mem::replace(&mut self.active, relay);
        self.pid.store(self.active.id(), Ordering::Relaxed);
        self.listen(&old);
        old
    }

    pub(crate) fn listen_to_active(&mut self) {
        let said = self.active.stderr();
        self.hear(&said);
    }

    fn listen(&mut self, relay: &Relay) {
        let said = relay.stderr();
        self.hear(&said);
    }

    fn hear(&mut self, said: &str) {
        self.told.extend(said.lines().find(|line| line.contains(CANARY)).map(str::to_owned));
    }

    pub(crate) fn said(&self) -> String {
        self.active.stderr()
    }
}

fn active_pid(db: &Outbox) -> Option<i32> {
    let sql = format!("SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{}'", db.name());
    db.try_query(&sql).ok()?.first()?.get(0)
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}
