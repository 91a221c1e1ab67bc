use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pg_replication::wal::Lsn;

use super::super::proxy::{Protocol, Proxy, Tamper, Toward};
use super::message::{Message, number};
use super::requests::Requests;
use super::{Backend, LOGIN, Recording, Round};

/// The version of the protocol in a startup message; other first messages ask for TLS or cancel a request.
const VERSION: [u8; 4] = [0, 3, 0, 0];

/// A proxy in front of PostgreSQL that stores the messages of all connections. They must be without TLS and passwords.
pub(crate) struct Recorder {
    proxy: Proxy,
    tape: Arc<Mutex<Tape>>,
}

/// The messages so far.
#[derive(Default)]
struct Tape {
    recording: Recording,
    /// The highest position that the client has reported as flushed.
    flushed: u64,
}

/// One connection.
struct Tap {
    tape: Arc<Mutex<Tape>>,
    backend: Option<Backend>,
    requests: Requests,
    /// The rounds that are not answered yet, by their places. `None` is not recorded.
    unanswered: VecDeque<Option<usize>>,
}

impl Recorder {
    /// Starts a recorder for the server at this port of this machine.
    pub(crate) fn start(server: u16) -> Self {
        let tape = Arc::<Mutex<Tape>>::default();
        let proxy = Proxy::start(Protocol::Postgres, server);
        let shared = Arc::clone(&tape);
        proxy.tamper(Some(Arc::new(move || {
            let (tape, requests) = (Arc::clone(&shared), Requests::default());
            Box::new(Tap { tape, backend: None, requests, unanswered: VecDeque::new() })
        })));
        Self { proxy, tape }
    }

    /// Returns the port to which the relay connects.
    pub(crate) const fn port(&self) -> u16 {
        self.proxy.port()
    }

    /// Ends the recording.
    pub(crate) fn finish(self) -> Recording {
        let tape = std::mem::take(&mut *lock(&self.tape));
        let mut recording = tape.recording;
        recording.facts.insert("flushed".to_owned(), Lsn::new(tape.flushed).to_string());
        recording.drop_repeated_answers();
        recording
    }
}

impl Tamper for Tap {
    fn message(&mut self, toward: Toward, bytes: &mut Vec<u8>) {
        match toward {
            Toward::Server => self.asked(bytes),
            Toward::Client => self.answered(Message::parse(bytes)),
        }
    }
}

impl Tap {
    fn asked(&mut self, bytes: &[u8]) {
        let Some(backend) = self.backend else {
            if bytes.get(4..8) == Some(&VERSION) {
                let backend = Backend::of_startup(&bytes[8..]);
                self.backend = Some(backend);
                self.begin(backend, LOGIN.to_owned());
            }
            return;
        };
        let message = Message::parse(bytes);
        match message.tag {
            // Goodbye, and the end of the stream.
            b'X' | b'c' | b'f' => {}
            b'd' => {
                if message.body.first() == Some(&b'r') {
                    let mut tape = lock(&self.tape);
                    tape.flushed = tape.flushed.max(number(&message.body[9..]));
                }
            }
            _ => {
                let Some(request) = self.requests.push(&message) else { return };
                if request.only_closes() {
                    return self.unanswered.push_back(None);
                }
                lock(&self.tape).recording.texts.extend(request.texts);
                self.begin(backend, request.text);
            }
        }
    }

    fn begin(&mut self, backend: Backend, request: String) {
        let rounds = &mut lock(&self.tape).recording.rounds;
        self.unanswered.push_back(Some(rounds.len()));
        rounds.push(Round { backend, request, answer: Vec::new() });
    }

    fn answered(&mut self, message: Message) {
        let Some(&place) = self.unanswered.front() else { return };
        if message.tag == b'Z' {
            self.unanswered.pop_front();
        }
        if let Some(place) = place {
            lock(&self.tape).recording.rounds[place].answer.push(message);
        }
    }
}

fn lock(tape: &Mutex<Tape>) -> MutexGuard<'_, Tape> {
    tape.lock().unwrap_or_else(PoisonError::into_inner)
}
