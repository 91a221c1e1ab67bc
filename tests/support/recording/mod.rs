//! Recorded conversations with PostgreSQL: the requests of a relay and the answers of the server, message by message.
//!
//! A [`recorder::Recorder`] is a proxy that stores the messages. A [`server::RecordedServer`] gives the same answers to
//! another relay, so that everything from the relay's sockets on is the product's own code, and no PostgreSQL runs.

mod file;
mod message;
pub(crate) mod recorder;
mod requests;
pub(crate) mod server;

use std::collections::BTreeMap;

use message::Message;

/// The request that stands for a login.
const LOGIN: &str = "login";

/// The messages between one relay and PostgreSQL, on all of its connections.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Recording {
    /// Facts about the run by name, such as the database.
    pub(crate) facts: BTreeMap<String, String>,
    /// Requests with their answers, in the order of the requests.
    pub(crate) rounds: Vec<Round>,
    /// Long texts of requests, by their digests; requests name the digests.
    pub(crate) texts: BTreeMap<String, String>,
}

/// A request, and the messages that answer it up to ReadyForQuery. The answer to START_REPLICATION is the whole stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Round {
    pub(crate) backend: Backend,
    /// One line for each message.
    pub(crate) request: String,
    pub(crate) answer: Vec<Message>,
}

/// The kind of server process at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Backend {
    Walsender,
    Sql,
}

impl Backend {
    /// Returns the backend that this startup message asks for.
    fn of_startup(body: &[u8]) -> Self {
        match body.windows(13).any(|part| part == b"\0replication\0") {
            true => Self::Walsender,
            false => Self::Sql,
        }
    }
}

impl Recording {
    /// Drops the answers at the end that repeat the one before them: a recorded server repeats its last answer anyway.
    fn drop_repeated_answers(&mut self) {
        let mut places = BTreeMap::<_, Vec<usize>>::new();
        for (place, round) in self.rounds.iter().enumerate().filter(|(_, round)| round.request != LOGIN) {
            places.entry((round.backend, round.request.clone())).or_default().push(place);
        }
        for places in places.values() {
            for pair in places.windows(2).rev() {
                if self.rounds[pair[0]].answer != self.rounds[pair[1]].answer {
                    break;
                }
                self.rounds[pair[1]].answer.clear();
            }
        }
        self.rounds.retain(|round| !round.answer.is_empty());
    }
}
