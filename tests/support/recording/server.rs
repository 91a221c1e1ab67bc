use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::message::{Message, number};
use super::requests::Requests;
use super::{Backend, LOGIN, Recording};

const COPY_BOTH: u8 = b'W';
const COPY_DONE: u8 = b'c';

/// A server that answers as PostgreSQL did in a recording: the same request gets the same answers in the same order, and the
/// last of them from then on. It listens until it is dropped.
pub(crate) struct RecordedServer {
    port: u16,
    state: Arc<State>,
}

/// The answers to each request of a backend, in their order.
type Answers = HashMap<(Backend, String), VecDeque<Vec<Message>>>;

struct State {
    answers: Mutex<Answers>,
    /// Requests that are not in the recording.
    unknown: Mutex<Vec<String>>,
    /// The highest position that the relay has reported as flushed.
    flushed: AtomicU64,
    closed: Mutex<bool>,
}

impl RecordedServer {
    pub(crate) fn start(recording: &Recording) -> Self {
        let mut answers = Answers::new();
        for round in &recording.rounds {
            let key = (round.backend, round.request.clone());
            answers.entry(key).or_default().push_back(round.answer.clone());
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            answers: Mutex::new(answers),
            unknown: Mutex::default(),
            flushed: AtomicU64::new(0),
            closed: Mutex::new(false),
        });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if *lock(&shared.closed) {
                    return;
                }
                let state = Arc::clone(&shared);
                // A client that leaves ends its connection.
                thread::spawn(move || drop(Connection::new(client, state).serve()));
            }
        });
        Self { port, state }
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the highest position that the relay has reported as flushed.
    pub(crate) fn flushed(&self) -> u64 {
        self.state.flushed.load(Ordering::Relaxed)
    }

    /// Requests that are not in the recording, each once.
    pub(crate) fn unknown(&self) -> Vec<String> {
        lock(&self.state.unknown).clone()
    }
}

impl Drop for RecordedServer {
    fn drop(&mut self) {
        *lock(&self.state.closed) = true;
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
    }
}

struct Connection {
    client: TcpStream,
    state: Arc<State>,
    requests: Requests,
    /// The end of the stream, which is sent when the client has ended it.
    stream_end: Vec<Message>,
}

impl Connection {
    fn new(client: TcpStream, state: Arc<State>) -> Self {
        Self { client, state, requests: Requests::default(), stream_end: Vec::new() }
    }

    fn serve(mut self) -> std::io::Result<()> {
        self.client.set_nodelay(true)?;
        let startup = self.read(0)?;
        let backend = Backend::of_startup(&startup);
        self.answer(backend, LOGIN)?;
        loop {
            let bytes = self.read(1)?;
            let message = Message::parse(&bytes);
            match message.tag {
                b'X' => return Ok(()),
                b'd' if message.body.first() == Some(&b'r') => {
                    self.state.flushed.fetch_max(number(&message.body[9..]), Ordering::Relaxed);
                }
                b'd' | b'f' => {}
                COPY_DONE => {
                    let end = std::mem::take(&mut self.stream_end);
                    self.write(&end)?;
                }
                _ => {
                    let Some(request) = self.requests.push(&message) else { continue };
                    match request.only_closes() {
                        true => self.write(&closed(&request.text))?,
                        false => self.answer(backend, &request.text)?,
                    }
                }
            }
        }
    }

    fn answer(&mut self, backend: Backend, request: &str) -> std::io::Result<()> {
        let mut answer = self.state.answer(backend, request);
        if answer.first().is_some_and(|message| message.tag == COPY_BOTH) {
            let end = answer.iter().position(|message| message.tag == COPY_DONE);
            self.stream_end = answer.split_off(end.unwrap_or(answer.len()));
        }
        self.write(&answer)
    }

    fn write(&mut self, messages: &[Message]) -> std::io::Result<()> {
        let bytes: Vec<u8> = messages.iter().flat_map(Message::bytes).collect();
        self.client.write_all(&bytes)
    }

    /// Reads a message whose length follows `head` bytes.
    fn read(&mut self, head: usize) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; head + 4];
        self.client.read_exact(&mut bytes)?;
        let length = u32::from_be_bytes(bytes[head..].try_into().unwrap());
        bytes.resize(head + usize::try_from(length).unwrap(), 0);
        self.client.read_exact(&mut bytes[head + 4..])?;
        Ok(bytes)
    }
}

impl State {
    fn answer(&self, backend: Backend, request: &str) -> Vec<Message> {
        let mut answers = lock(&self.answers);
        match answers.get_mut(&(backend, request.to_owned())) {
            Some(of_request) if of_request.len() > 1 => of_request.pop_front().unwrap(),
            Some(of_request) => of_request[0].clone(),
            None => {
                let mut unknown = lock(&self.unknown);
                let request = format!("{backend:?}: {request}");
                if !unknown.contains(&request) {
                    unknown.push(request);
                }
                vec![refusal(), ready()]
            }
        }
    }
}

fn ready() -> Message {
    Message { tag: b'Z', body: b"I".to_vec() }
}

/// Returns an error with SQLSTATE XX000, which is retried and finally leads to exit code 4.
fn refusal() -> Message {
    let fields = b"SERROR\0VERROR\0CXX000\0Mthis request is not in the recording\0\0";
    Message { tag: b'E', body: fields.to_vec() }
}

fn closed(request: &str) -> Vec<Message> {
    let closed = request.lines().map(|_| Message { tag: b'3', body: Vec::new() });
    closed.chain([ready()]).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
