//! A service's relay, and an operator who starts it again and follows the remedy of a stop.

use std::time::{Duration, Instant};

use crate::course::gap::Gap;
use crate::support::kafka::Kafka;
use crate::support::outbox::Outbox;
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually, let_pass};

/// A stop by SIGTERM ends within this time.
const STOP_MAX: Duration = Duration::from_secs(30);
/// A process has its signal handler within this time.
const HANDLER_MAX: Duration = Duration::from_secs(3);
/// Remedies that the operator tries in one run.
const REMEDIES_MAX: usize = 6;
/// No operation makes a table unlogged.
const ALARM: &str = "may have been unlogged";
/// The publication was changed and changed back.
pub(crate) const SUSPICION: &str = "while outboxd did not run";
/// The operator takes `snapshot.mode=always` away again when the log has this.
const SNAPSHOT_SENT: &str = "snapshot sent and acknowledged";
/// A snapshot did not have the rows of a table that may be missing.
const INCOMPLETE: [&str; 2] =
    ["not wholly in the snapshot that followed a lost slot", "are not all in the snapshot"];
const ACCEPT: &str = "outboxd.position.accept=";
const ENOUGH: (&str, &str) = ("max.message.bytes", "1048576");

/// The service that the features of a draw are of, another one beside it, or the one that replaces a poller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    First,
    Second,
    Migrated,
}

pub(crate) struct Service {
    pub(crate) role: Role,
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
    pub(crate) gap: Gap,
    /// More settings of the last start.
    once: Config,
}

/// An exit that the relay chose.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    pub(crate) code: i32,
    pub(crate) reason: String,
}

impl Service {
    pub(crate) fn start(role: Role, name: String, config: Config, small: Vec<String>) -> Self {
        let relay = Relay::start(&config);
        Self {
            role,
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
            gap: Gap::default(),
            once: Config::new(),
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
            self.start_once(&Config::new());
        }
    }

    /// Starts the relay with more settings for this start alone.
    pub(crate) fn start_once(&mut self, settings: &Config) {
        let mut config = self.config.clone();
        config.extend(settings.clone());
        if settings.get("snapshot.mode").is_some_and(|mode| mode == "always") {
            let whole = ["snapshot.include.collection.list", "snapshot.select.statement.overrides"];
            config = with(config, &whole.map(|key| (key, "")));
        }
        self.once = settings.clone();
        self.replace(Relay::start(&config));
    }

    /// Returns whether the snapshot that this start has asked for is not sent yet: it comes behind the changes in the slot.
    pub(crate) fn owes_snapshot(&self) -> bool {
        self.once.contains_key("snapshot.mode") && !self.relay.stderr().contains(SNAPSHOT_SENT)
    }

    /// Returns whether its process has reported that a snapshot did not have all rows that may be missing.
    pub(crate) fn lacks_rows(&self) -> bool {
        let said = self.relay.stderr();
        self.given_up.is_none() && INCOMPLETE.iter().any(|words| said.contains(words))
    }

    /// Starts the relay once with a snapshot of all rows of all tables.
    pub(crate) fn send_all_rows(&mut self, kafka: &Kafka) {
        self.resent = true;
        self.raise_limits(kafka);
        self.start_once(&with(Config::new(), &[("snapshot.mode", "always")]));
    }

    /// Puts another process in the place of one that has ended, and returns that.
    fn replace(&mut self, relay: Relay) -> Relay {
        let before = std::mem::replace(&mut self.relay, relay);
        self.read_alarms(&before.stderr());
        before
    }

    fn read_alarms(&mut self, said: &str) {
        let is_alarm = |line: &&str| line.contains(ALARM) || line.contains(SUSPICION);
        self.alarms.extend(said.lines().filter(is_alarm).map(str::to_owned));
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
            self.wait_for_handler();
            self.relay.terminate();
        }
        self.relay.wait_for_exit(STOP_MAX)
    }

    /// Waits until a process has its signal handler, which it has when it asks Kafka. A fault may let it wait for the answer.
    fn wait_for_handler(&mut self) {
        let began = Instant::now();
        while self.relay.is_running()
            && !self.relay.stderr().contains("Kafka answers")
            && began.elapsed() < HANDLER_MAX
        {
            let_pass(Duration::from_millis(20));
        }
    }

    /// Starts a relay that has ended by itself again, with the remedy that its message names.
    pub(crate) fn look_after(&mut self, kafka: &Kafka) {
        if self.given_up.is_some() || self.relay.is_running() {
            return;
        }
        let code = self.relay.wait_for_exit(STOP_MAX);
        let said = self.relay.stderr();
        self.stops.push(Stop { code, reason: reason(&said) });
        // The remedies that an alarm names are not those of this stop.
        let is_of_stop = |line: &&str| !line.contains(ALARM) && !line.contains(SUSPICION);
        let said: String = said.lines().filter(is_of_stop).collect::<Vec<_>>().join("\n");
        let once: Vec<(&str, String)> = match code {
            // A start during the gap, which is over.
            3 if self.gap.is_open()
                && said.contains("does not publish")
                && !said.contains("snapshot.mode") =>
            {
                vec![]
            }
            3 if self.gap.is_begun && said.contains("publication ") => {
                let remedy = self.gap.remedy(value_of(&said));
                if remedy.iter().any(|(key, _)| *key == "snapshot.mode") {
                    self.raise_limits(kafka);
                }
                if !remedy.is_empty() {
                    self.read_alarms(&self.relay.stderr());
                    self.gap.settled_at = Some(self.alarms.len());
                }
                remedy
            }
            7 if said.contains("slot.recovery=snapshot") => {
                self.resent = true;
                vec![("slot.recovery", "snapshot".to_owned())]
            }
            3 | 7 if said.contains("snapshot.mode=always") => {
                self.resent = true;
                vec![("snapshot.mode", "always".to_owned())]
            }
            3 | 7 if said.contains(ACCEPT) => {
                self.accepted = true;
                vec![("outboxd.position.accept", value_of(&said).unwrap_or_default())]
            }
            6 if !self.small.is_empty() => {
                self.raise_limits(kafka);
                // The snapshot that a remedy has asked for is not complete.
                if self.owes_snapshot() || !self.relay.stderr().contains("\"to\":\"streaming\"") {
                    let config = self.once.clone();
                    return self.start_once(&config);
                }
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
        self.start_once(&with(Config::new(), &once));
    }

    /// Makes room for records that are too large. Before a snapshot, too: each of them begins it again.
    fn raise_limits(&mut self, kafka: &Kafka) {
        self.small.drain(..).for_each(|topic| kafka.alter_topic(&topic, ENOUGH));
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
        self.once = Config::new();
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

    /// Returns the value with which the operator accepts the suspicion that its process reports.
    pub(crate) fn suspicion(&self) -> Option<String> {
        let said = self.relay.stderr();
        let line = said.lines().find(|line| line.contains(SUSPICION)).filter(|_| self.gap.is_open())?;
        value_of(line)
    }

    /// Starts the relay once with what settles the suspicion: the position of `suspicion`, or all rows of the tables.
    pub(crate) fn settle_suspicion(&mut self, kafka: &Kafka, key: &str, value: &str) {
        self.gap.settle(key == "snapshot.mode");
        if key == "snapshot.mode" {
            self.raise_limits(kafka);
        }
        self.start_once(&with(Config::new(), &[(key, value)]));
        self.gap.settled_at = Some(self.alarms.len());
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

/// Returns the value of `outboxd.position.accept` that a message names.
fn value_of(said: &str) -> Option<String> {
    let (_, rest) = said.rsplit_once(ACCEPT)?;
    rest.split(|c: char| !(c.is_ascii_hexdigit() || c == '/')).next().map(str::to_owned)
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
