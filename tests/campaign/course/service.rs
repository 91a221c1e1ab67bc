//! A service's relay, and an operator who starts it again and follows the remedy of a stop.

use std::time::Duration;

use crate::support::kafka::Kafka;
use crate::support::outbox::Outbox;
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually};

/// A stop by SIGTERM ends within this time.
const STOP_MAX: Duration = Duration::from_secs(30);
/// Remedies that the operator tries in one run.
const REMEDIES_MAX: usize = 6;
/// No operation makes a table unlogged.
const ALARM: &str = "may have been unlogged";
const ACCEPT: &str = "outboxd.position.accept=";
const ENOUGH: (&str, &str) = ("max.message.bytes", "1048576");

pub(crate) struct Service {
    /// The slot's name and the prefix of its topics.
    pub(crate) name: String,
    config: Config,
    relay: Relay,
    second: Option<Relay>,
    /// The topics with a limit, until the limit is raised.
    small: Vec<String>,
    pub(crate) stops: Vec<Stop>,
    /// A remedy has sent a snapshot again.
    pub(crate) resent: bool,
    /// A remedy has accepted that rows are skipped.
    pub(crate) accepted: bool,
    /// It ended without need, or not as it should.
    pub(crate) complaints: Vec<String>,
    /// The last exit, if its message names no remedy that can be automated.
    pub(crate) given_up: Option<String>,
    alarms: Vec<String>,
}

/// An exit that the relay chose.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    pub(crate) code: i32,
    pub(crate) reason: String,
}

impl Service {
    pub(crate) fn start(name: String, config: Config, small: Vec<String>) -> Self {
        let relay = Relay::start(&config);
        Self {
            name,
            config,
            relay,
            second: None,
            small,
            stops: Vec::new(),
            resent: false,
            accepted: false,
            complaints: Vec::new(),
            given_up: None,
            alarms: Vec::new(),
        }
    }

    /// Sets the configuration of each later start.
    pub(crate) fn configure(&mut self, config: Config) {
        self.config = config;
    }

    pub(crate) fn relay(&mut self) -> &mut Relay {
        &mut self.relay
    }

    pub(crate) fn start_again(&mut self) {
        if self.given_up.is_none() {
            self.replace(Relay::start(&self.config));
        }
    }

    /// Starts the relay with more settings for this start alone.
    pub(crate) fn start_once(&mut self, settings: &Config) {
        let mut config = self.config.clone();
        config.extend(settings.clone());
        self.replace(Relay::start(&config));
    }

    /// Puts another process in the place of one that has ended, and returns that.
    fn replace(&mut self, relay: Relay) -> Relay {
        let before = std::mem::replace(&mut self.relay, relay);
        self.read_alarms(&before.stderr());
        before
    }

    fn read_alarms(&mut self, said: &str) {
        self.alarms.extend(said.lines().filter(|line| line.contains(ALARM)).map(str::to_owned));
    }

    pub(crate) fn has_alarms(&self) -> bool {
        !self.alarms.is_empty() || self.relay.stderr().contains(ALARM)
    }

    /// Returns the lines of all its processes that report that rows may be missing.
    pub(crate) fn alarms(&mut self) -> Vec<String> {
        self.read_alarms(&self.relay.stderr());
        std::mem::take(&mut self.alarms)
    }

    /// Sends SIGTERM and returns the exit code. A relay that has ended before has its own reason.
    pub(crate) fn stop(&mut self) -> i32 {
        if self.relay.is_running() {
            // A frozen one would not notice.
            self.relay.resume();
            self.relay.terminate();
        }
        self.relay.wait_for_exit(STOP_MAX)
    }

    /// Starts a relay that has ended by itself again, with the remedy that its message names.
    pub(crate) fn look_after(&mut self, kafka: &Kafka) {
        if self.given_up.is_some() || self.relay.is_running() {
            return;
        }
        let code = self.relay.wait_for_exit(STOP_MAX);
        let said = self.relay.stderr();
        self.stops.push(Stop { code, reason: reason(&said) });
        let config = self.config.clone();
        // An alarm names remedies of its own, which nobody needs for this stop.
        let said: String = said.lines().filter(|line| !line.contains(ALARM)).collect::<Vec<_>>().join("\n");
        let once: Vec<(&str, String)> = match code {
            3 | 7 if said.contains("snapshot.mode=always") => {
                self.resent = true;
                vec![("snapshot.mode", "always".to_owned())]
            }
            3 | 7 if said.contains(ACCEPT) => {
                self.accepted = true;
                let value = said
                    .rsplit_once(ACCEPT)
                    .map(|(_, rest)| rest.split(|c: char| !(c.is_ascii_hexdigit() || c == '/')));
                vec![(
                    "outboxd.position.accept",
                    value.and_then(|mut parts| parts.next()).unwrap_or_default().to_owned(),
                )]
            }
            6 if !self.small.is_empty() => {
                self.small.drain(..).for_each(|topic| kafka.alter_topic(&topic, ENOUGH));
                vec![]
            }
            1 | 4 | 5 => {
                self.complaints.push(format!("ended: exit {code}: {}", end_of(&said)));
                vec![]
            }
            _ => {
                self.given_up = Some(format!("exit {code}: {}", end_of(&said)));
                return;
            }
        };
        if self.stops.len() > REMEDIES_MAX {
            self.given_up = Some(format!("exit {code} after {REMEDIES_MAX} remedies: {}", end_of(&said)));
            return;
        }
        let once: Vec<(&str, &str)> = once.iter().map(|(key, value)| (*key, value.as_str())).collect();
        self.replace(Relay::start(&with(config, &once)));
    }

    /// Lets a second instance take over from the first one, which is killed, or frozen and continued.
    pub(crate) fn take_over(&mut self, db: &Outbox, is_frozen: bool) {
        let mut second = Relay::start(&self.config);
        // The first one may lose the slot meanwhile, for a reason of its own: then the second streams at once.
        let streams = |second: &Relay| second.stderr().contains("\"to\":\"streaming\"");
        eventually(DEADLINE, "the second instance stands by or streams, or has ended", || {
            !second.is_running() || second.stderr().contains("standing by") || streams(&second)
        });
        if !second.is_running() {
            let code = second.wait_for_exit(STOP_MAX);
            self.complaints
                .push(format!("ended: instead of standing by, exit {code}: {}", end_of(&second.stderr())));
            return;
        }
        let before = self.walsender(db);
        if is_frozen {
            self.relay.pause();
        } else {
            self.relay.kill();
        }
        eventually(DEADLINE, "the second instance streams", || {
            let now = self.walsender(db);
            now.is_some() && now != before || streams(&second)
        });
        let mut first = self.replace(second);
        if is_frozen {
            first.resume();
            self.second = Some(first);
        }
    }

    /// Ends the instance that was replaced.
    pub(crate) fn end_second(&mut self) {
        if let Some(mut second) = self.second.take() {
            if second.is_running() {
                second.terminate();
            }
            second.wait_for_exit(STOP_MAX);
        }
    }

    fn walsender(&self, db: &Outbox) -> Option<i32> {
        let sql = format!("SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{}'", self.name);
        db.try_query(&sql).ok()?.first()?.get(0)
    }

    /// Returns the last lines of its log.
    pub(crate) fn said(&self) -> String {
        end_of(&self.relay.stderr())
    }
}

/// Returns the line of the error, without numbers, so that equal stops count as one.
fn reason(said: &str) -> String {
    let line =
        said.lines().rfind(|line| line.contains("error") || line.contains("ERROR")).unwrap_or_default();
    let kept: String = line.chars().filter(|c| !c.is_ascii_digit()).collect();
    kept.chars().take(160).collect()
}

fn end_of(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}
