//! A proxy of the tests' own: a link between the relay and a server that can be held, slowed, cut, reset and garbled, and
//! whose messages a test can change on the way.

use std::io::Write;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::proxy_messages::Gathered;
pub(crate) use super::proxy_messages::{Protocol, Toward};

/// Interval at which a thread that waits for bytes checks whether its connection must end.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Condition of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weather {
    Fair,
    /// No message is forwarded and the connections stay open: a black hole. Buffered messages are forwarded when it is
    /// over.
    Held,
    /// Each read of the proxy's is passed on this much later.
    Slow(Duration),
}

/// Way in which a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Fin,
    Rst,
}

/// Changes the messages of one connection; a message that is emptied does not go on.
pub(crate) trait Tamper: Send {
    fn message(&mut self, toward: Toward, message: &mut Vec<u8>);
}

/// Makes the tamperer of a new connection.
pub(crate) type Tampering = Arc<dyn Fn() -> Box<dyn Tamper> + Send + Sync>;

/// Listens on a port of its own until it is dropped.
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    protocol: Protocol,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    target: u16,
    tampering: Option<Tampering>,
    weather: Weather,
    /// Number of times the connections were ended. A connection that began before the last time ends at its next
    /// message.
    breaks: u64,
    ending: Ending,
    /// The next message that can be garbled is.
    garble: bool,
    closed: bool,
}

struct Connection {
    client: TcpStream,
    server: TcpStream,
    born: u64,
    over: AtomicBool,
    tamper: Option<Mutex<Box<dyn Tamper>>>,
}

impl Proxy {
    /// Starts a proxy for the server that listens, or will listen, at this port of this machine.
    pub(crate) fn start(protocol: Protocol, target: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = State {
            target,
            tampering: None,
            weather: Weather::Fair,
            breaks: 0,
            ending: Ending::Fin,
            garble: false,
            closed: false,
        };
        let shared = Arc::new(Shared { protocol, state: Mutex::new(state), changed: Condvar::new() });
        let listening = Arc::clone(&shared);
        thread::spawn(move || listening.listen(&listener));
        Self { port, shared }
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Changes the messages of connections that begin from now on.
    pub(crate) fn tamper(&self, tampering: Option<Tampering>) {
        self.shared.change(|state| state.tampering = tampering);
    }

    /// Changes the weather of all connections.
    pub(crate) fn set(&self, weather: Weather) {
        self.shared.change(|state| state.weather = weather);
    }

    /// Ends all connections: each in the middle of its next message, an idle one at once.
    pub(crate) fn cut(&self, ending: Ending) {
        self.shared.change(|state| {
            state.breaks += 1;
            state.ending = ending;
        });
    }

    /// Flips a bit in the next message where that cannot go unnoticed: in the type of a row, in a batch under its checksum.
    pub(crate) fn garble(&self) {
        self.shared.change(|state| state.garble = true);
    }

    /// Connects to another server from now on, and ends the connections to the old one.
    pub(crate) fn redirect(&self, target: u16) {
        self.shared.change(|state| state.target = target);
        self.cut(Ending::Fin);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.change(|state| state.closed = true);
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
    }
}

impl Shared {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(self: &Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming().map_while(Result::ok) {
            let (target, born, closed, tamper) = {
                let state = self.lock();
                let tamper = state.tampering.as_ref().map(|make| Mutex::new(make()));
                (state.target, state.breaks, state.closed, tamper)
            };
            if closed {
                return;
            }
            // A server that is not there: the client's connection ends, and it comes again.
            let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)) else { continue };
            for stream in [&client, &server] {
                stream.set_read_timeout(Some(LOOK_INTERVAL)).unwrap();
                drop(stream.set_nodelay(true));
            }
            let connection =
                Arc::new(Connection { client, server, born, over: AtomicBool::new(false), tamper });
            for toward in [Toward::Client, Toward::Server] {
                let (shared, connection) = (Arc::clone(self), Arc::clone(&connection));
                thread::spawn(move || shared.pump(&connection, toward));
            }
        }
    }

    fn pump(&self, connection: &Connection, toward: Toward) {
        let mut gathered = Gathered::new(self.protocol, toward);
        loop {
            let open = gathered.read(connection.from(toward));
            let mut out = Vec::new();
            while let Some(mut message) = gathered.next() {
                self.meddle(connection, toward, &mut message);
                out.append(&mut message);
            }
            let passed = self.wait_for_weather(connection, !out.is_empty());
            if !passed {
                let half = out.len() / 2;
                out.truncate(half);
                drop(connection.to(toward).write_all(&out));
                return connection.end(self.lock().ending);
            }
            if connection.to(toward).write_all(&out).is_err() || !open {
                return connection.end(Ending::Fin);
            }
        }
    }

    /// Waits until something may pass; false when the connection is to end.
    fn wait_for_weather(&self, connection: &Connection, something: bool) -> bool {
        let mut state = self.lock();
        let since = Instant::now();
        loop {
            if state.closed || state.breaks > connection.born || connection.over.load(Ordering::Relaxed) {
                return false;
            }
            let pause = match state.weather {
                Weather::Fair => return true,
                Weather::Held => LOOK_INTERVAL,
                Weather::Slow(_) if !something => return true,
                Weather::Slow(delay) => match delay.checked_sub(since.elapsed()) {
                    None => return true,
                    Some(rest) => rest,
                },
            };
            state = self.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn meddle(&self, connection: &Connection, toward: Toward, message: &mut Vec<u8>) {
        if let Some(tamper) = &connection.tamper {
            tamper.lock().unwrap_or_else(PoisonError::into_inner).message(toward, message);
        }
        let mut state = self.lock();
        if state.garble
            && let Some(byte) = self.protocol.weak_byte(toward, message)
        {
            *byte ^= 0x80;
            state.garble = false;
        }
    }
}

impl Connection {
    fn from(&self, toward: Toward) -> &TcpStream {
        if toward == Toward::Client { &self.server } else { &self.client }
    }

    fn to(&self, toward: Toward) -> &TcpStream {
        if toward == Toward::Client { &self.client } else { &self.server }
    }

    /// Ends the connection. A reset is sent when both threads have dropped the sockets.
    fn end(&self, ending: Ending) {
        self.over.store(true, Ordering::Relaxed);
        for stream in [&self.client, &self.server] {
            match ending {
                Ending::Fin => drop(stream.shutdown(Shutdown::Both)),
                Ending::Rst => drop(SockRef::from(stream).set_linger(Some(Duration::ZERO))),
            }
        }
    }
}
