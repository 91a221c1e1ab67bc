//! Faults, and how each is undone.

use std::process::Command;
use std::time::{Duration, Instant};

use fastrand::Rng;
use outboxd::internals::throwaway::StopMode;

use crate::fleet::Fleet;
use crate::support::outbox::Outbox;
use crate::support::proxy::{Ending, Proxy, Weather};
use crate::support::wait::{DEADLINE, eventually, let_pass};
use crate::world::{Site, World};

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    RelayKilled,
    RelayStopped,
    RelayPaused,
    /// Paused until a second one has taken over, and then let go on.
    RelayReplaced,
    BrokerKilled,
    BrokerPaused,
    PostgresFast,
    PostgresImmediate,
    PostgresKilled,
    WalsenderTerminated,
    WalsenderKilled,
    PostgresLink(LinkFault),
    KafkaLink(LinkFault),
}

/// Fault of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LinkFault {
    Cut,
    Reset,
    Held,
    Slow,
    Garbled,
}

/// Component that a fault affects; two faults at a time affect different ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Relay,
    Broker,
    Postgres,
    PostgresLink,
    KafkaLink,
}

/// Each as often as it stands here.
pub(crate) const MIX: [Fault; 27] = {
    use Fault::*;
    [
        RelayKilled,
        RelayKilled,
        RelayKilled,
        RelayKilled,
        RelayStopped,
        RelayStopped,
        RelayPaused,
        RelayReplaced,
        BrokerKilled,
        BrokerPaused,
        BrokerPaused,
        PostgresFast,
        PostgresImmediate,
        PostgresKilled,
        WalsenderTerminated,
        WalsenderTerminated,
        WalsenderKilled,
        PostgresLink(LinkFault::Cut),
        PostgresLink(LinkFault::Reset),
        PostgresLink(LinkFault::Held),
        PostgresLink(LinkFault::Garbled),
        PostgresLink(LinkFault::Slow),
        KafkaLink(LinkFault::Cut),
        KafkaLink(LinkFault::Reset),
        KafkaLink(LinkFault::Held),
        KafkaLink(LinkFault::Garbled),
        KafkaLink(LinkFault::Slow),
    ]
};

/// Faults in an order that a seed decides; each of them comes before any comes again.
#[derive(Debug)]
pub(crate) struct Deck {
    mix: Vec<Fault>,
    left: Vec<Fault>,
}

impl Deck {
    pub(crate) const fn new(mix: Vec<Fault>) -> Self {
        Self { mix, left: Vec::new() }
    }

    /// Returns the next fault, three times out of ten together with another one that affects another component.
    pub(crate) fn draw(&mut self, rng: &mut Rng) -> Vec<Fault> {
        let first = self.next(rng);
        if rng.u32(0..10) >= 3 {
            return vec![first];
        }
        let second = self.next(rng);
        // A second relay can stand by only where nothing else is wrong.
        let alone = [first, second].contains(&Fault::RelayReplaced);
        if alone || first.victim() == second.victim() {
            self.left.push(second);
            return vec![first];
        }
        vec![first, second]
    }

    fn next(&mut self, rng: &mut Rng) -> Fault {
        if self.left.is_empty() {
            self.left = self.mix.clone();
            rng.shuffle(&mut self.left);
        }
        self.left.pop().unwrap()
    }
}

impl Fault {
    const fn victim(self) -> Victim {
        match self {
            Self::RelayKilled | Self::RelayStopped | Self::RelayPaused | Self::RelayReplaced => Victim::Relay,
            Self::BrokerKilled | Self::BrokerPaused => Victim::Broker,
            Self::PostgresFast
            | Self::PostgresImmediate
            | Self::PostgresKilled
            | Self::WalsenderTerminated
            | Self::WalsenderKilled => Victim::Postgres,
            Self::PostgresLink(_) => Victim::PostgresLink,
            Self::KafkaLink(_) => Victim::KafkaLink,
        }
    }
}

/// Components that a fault can affect.
pub(crate) struct Scene<'s> {
    pub(crate) world: &'s mut World,
    pub(crate) site: &'s Site,
    pub(crate) fleet: &'s mut Fleet,
    /// The longest times that something took, by name.
    pub(crate) times: &'s mut Vec<(&'static str, Duration)>,
    pub(crate) complaints: &'s mut Vec<String>,
}

impl Scene<'_> {
    /// Lets it go wrong. `alone`: nothing else does.
    pub(crate) fn inflict(&mut self, fault: Fault, alone: bool) {
        match fault {
            Fault::RelayKilled => self.fleet.kill(),
            Fault::RelayStopped => self.stop_relay(alone),
            Fault::RelayPaused => self.fleet.pause(),
            Fault::RelayReplaced => self.replace_relay(alone),
            Fault::BrokerKilled => self.world.kafka.kill(),
            Fault::BrokerPaused => self.world.kafka.pause(),
            Fault::PostgresFast => self.stop_postgres(StopMode::Fast),
            Fault::PostgresImmediate => self.stop_postgres(StopMode::Immediate),
            Fault::PostgresKilled => self.world.postgres.kill().unwrap(),
            Fault::WalsenderTerminated => {
                let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_replication";
                drop(self.site.db.try_query(sql));
            }
            Fault::WalsenderKilled => kill_walsender(&self.site.db),
            Fault::PostgresLink(fault) => fault.inflict(&self.site.link),
            Fault::KafkaLink(fault) => fault.inflict(&self.world.kafka_link),
        }
    }

    /// Puts it right.
    pub(crate) fn heal(&mut self, fault: Fault) {
        match fault {
            Fault::RelayKilled | Fault::RelayStopped => self.fleet.replace(),
            Fault::RelayPaused => self.fleet.resume(),
            Fault::RelayReplaced => self.fleet.end_second(),
            Fault::BrokerKilled => self.world.kafka.start_again(),
            Fault::BrokerPaused => self.world.kafka.resume(),
            Fault::PostgresFast | Fault::PostgresImmediate | Fault::PostgresKilled => {
                self.world.postgres.start_again().unwrap();
            }
            Fault::WalsenderTerminated => {}
            Fault::WalsenderKilled => eventually(DEADLINE, "PostgreSQL has recovered", || {
                self.site.db.try_query("SELECT WHERE NOT pg_is_in_recovery()").is_ok()
            }),
            Fault::PostgresLink(fault) => fault.heal(&self.site.link),
            Fault::KafkaLink(fault) => fault.heal(&self.world.kafka_link),
        }
    }

    fn stop_relay(&mut self, alone: bool) {
        let began = Instant::now();
        let code = self.fleet.stop();
        self.times.push(("SIGTERM to exit", began.elapsed()));
        if alone && code != 0 {
            self.complaints
                .push(format!("a stop with nothing else wrong: exit {code}: {}", self.fleet.said()));
        }
    }

    /// Replaces the relay. The successor's stream can only be observed while PostgreSQL can be queried.
    fn replace_relay(&mut self, alone: bool) {
        self.fleet.start_second(&self.site.db);
        self.fleet.pause();
        let took = self.fleet.swap(&self.site.db, DEADLINE);
        if alone {
            self.times.push(("SIGSTOP to a second relay that streams", took));
        }
        self.fleet.resume_second();
    }

    fn stop_postgres(&mut self, mode: StopMode) {
        self.site.db.disconnect();
        let began = Instant::now();
        self.world.postgres.stop(mode, DEADLINE).unwrap();
        if mode == StopMode::Fast {
            self.times.push(("PostgreSQL's fast stop", began.elapsed()));
        }
    }
}

impl LinkFault {
    fn inflict(self, link: &Proxy) {
        match self {
            Self::Cut => link.cut(Ending::Fin),
            Self::Reset => link.cut(Ending::Rst),
            Self::Held => link.set(Weather::Held),
            Self::Slow => link.set(Weather::Slow(Duration::from_millis(100))),
            Self::Garbled => link.garble(),
        }
    }

    fn heal(self, link: &Proxy) {
        link.set(Weather::Fair);
    }
}

/// Sends SIGKILL to the relay's walsender: the server treats this as a crash, ends all sessions and recovers.
fn kill_walsender(db: &Outbox) {
    let sql = format!("SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{}'", db.name());
    let rows = db.try_query(&sql).unwrap_or_default();
    let pid: Option<i32> = rows.first().and_then(|row| row.get(0));
    if let Some(pid) = pid {
        let script = r#"kill -s KILL "$1""#;
        // It may have left meanwhile.
        drop(Command::new("/bin/sh").args(["-c", script, "kill", &pid.to_string()]).status());
        let_pass(Duration::from_millis(50));
    }
    db.disconnect();
}
