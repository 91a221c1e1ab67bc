use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use crate::connect::Worker;
use crate::drain::Trial;
use crate::options::Options;
use crate::relays::{self, Program};
use crate::usage::Usage;
use crate::{reader, receiver};

/// Participant of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Contestant {
    /// `pg_recvlogical` to /dev/null: what the server can send, to a program that only writes it away
    #[value(name = "pg_recvlogical")]
    RecvLogical,
    /// outboxd's own reading, without anything behind it
    Reader,
    Outboxd,
    /// Another build of outboxd: `--another`
    Another,
    /// Reads rows and sends them, and does nothing else: only with `--latency`
    Loop,
    /// A connector in a Connect worker, with larger batches and queues than its defaults
    Debezium,
}

/// The programs that take part.
#[derive(Debug)]
pub(crate) struct Field {
    contestants: Vec<Contestant>,
    recvlogical: Option<PathBuf>,
    worker: Option<Worker>,
    another: Option<PathBuf>,
}

/// Time and resources that a contestant needed for the backlog.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Took {
    /// From its start to the last row.
    pub(crate) wall: Duration,
    /// From its start to the first record; only for those who write records.
    pub(crate) first: Option<Duration>,
    /// Usage of its own process, where the system reports it.
    pub(crate) usage: Option<Usage>,
}

impl Field {
    /// Returns the contestants that are available and wanted. Debezium's worker is started by `worker`.
    pub(crate) fn gather(options: &Options, bindir: &str, worker: impl FnOnce(&Options) -> Worker) -> Self {
        let recvlogical = receiver::find(options, bindir);
        match &recvlogical {
            _ if !options.wants(Contestant::RecvLogical) => {}
            Some(program) => println!("pg_recvlogical: {}", program.display()),
            None => println!("no pg_recvlogical was found: --pg-recvlogical names one"),
        }
        let has_debezium = options.debezium.is_some() && options.wants(Contestant::Debezium);
        let available = |contestant: &Contestant| match contestant {
            Contestant::RecvLogical => recvlogical.is_some(),
            Contestant::Reader | Contestant::Outboxd | Contestant::Loop => true,
            Contestant::Another => options.another.is_some(),
            Contestant::Debezium => has_debezium,
        };
        let contestants = Contestant::value_variants().iter().copied();
        let contestants =
            contestants.filter(|&contestant| options.wants(contestant)).filter(available).collect();
        let worker = has_debezium.then(|| worker(options));
        Self { contestants, worker, recvlogical, another: options.another.clone() }
    }

    /// Returns the contestants that can process a backlog.
    pub(crate) fn for_backlog(&self) -> Vec<Contestant> {
        self.those(|contestant| contestant != Contestant::Loop)
    }

    /// Returns the contestants that write records.
    pub(crate) fn relays(&self) -> Vec<Contestant> {
        self.those(|contestant| match contestant {
            Contestant::RecvLogical | Contestant::Reader => false,
            Contestant::Outboxd | Contestant::Another | Contestant::Loop | Contestant::Debezium => true,
        })
    }

    fn those(&self, filter: impl Fn(Contestant) -> bool) -> Vec<Contestant> {
        self.contestants.iter().copied().filter(|&contestant| filter(contestant)).collect()
    }

    /// Returns the program of a relay.
    pub(crate) fn program(&self, relay: Contestant) -> Program<'_> {
        match (relay, &self.worker, &self.another) {
            (Contestant::Debezium, Some(worker), _) => Program::Debezium(worker),
            (Contestant::Another, _, Some(program)) => Program::Another(program),
            (Contestant::Loop, _, _) => Program::Loop,
            _ => Program::Outboxd,
        }
    }

    /// Lets a contestant work off the backlog.
    ///
    /// # Errors
    /// In words, when it did not do what it should.
    pub(crate) fn drain(&self, contestant: Contestant, trial: &Trial<'_>) -> Result<Took, String> {
        match contestant {
            Contestant::RecvLogical => {
                receiver::drain(self.recvlogical.as_ref().expect("it was found"), trial)
            }
            Contestant::Reader => Ok(reader::drain(trial)),
            Contestant::Outboxd | Contestant::Another | Contestant::Loop | Contestant::Debezium => {
                relays::drain(self.program(contestant), trial)
            }
        }
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RecvLogical => "pg_recvlogical",
            Self::Reader => "reader",
            Self::Outboxd => "outboxd",
            Self::Another => "another",
            Self::Loop => "loop",
            Self::Debezium => "debezium",
        })
    }
}
