use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Change of a message of the stream, which happens once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection ends in the middle of this many inserts.
    CutAfterInserts(u32),
    /// The next description of a table does not arrive.
    RelationLost,
    /// The next insert's content is of an unknown type.
    UnknownType,
    /// The next insert announces more columns than there are.
    TooManyColumns,
    /// The next insert's frame announces two gigabytes.
    FrameTooLong,
}

/// Stands between the relay and PostgreSQL, without TLS.
#[derive(Debug)]
pub(crate) struct PgProxy {
    port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    fault: Option<Fault>,
    /// The fault stays.
    always: bool,
    inserts: u32,
    /// No message is forwarded any more, and the connections stay open.
    hole: bool,
    /// Connections that must not be closed.
    held: Vec<TcpStream>,
}

/// CopyData, then XLogData with three positions, then the message's type.
const TYPE_AT: usize = 30;

impl PgProxy {
    /// Starts a proxy for the server at this port of this machine.
    pub(crate) fn start(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // A server that is not there is asked again.
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)) else { continue };
                let clone = |stream: &TcpStream| stream.try_clone().unwrap();
                let (to, from, up) = (clone(&server), clone(&client), Arc::clone(&shared));
                thread::spawn(move || upwards(from, to, &up));
                let down = Arc::clone(&shared);
                thread::spawn(move || downwards(server, client, &down));
            }
        });
        Self { port, state }
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Lets the fault happen once.
    pub(crate) fn arm(&self, fault: Fault) {
        *lock(&self.state) = State { fault: Some(fault), ..State::default() };
    }

    /// Lets the fault happen on every connection.
    pub(crate) fn arm_for_ever(&self, fault: Fault) {
        *lock(&self.state) = State { fault: Some(fault), always: true, ..State::default() };
    }

    /// Returns whether the fault has happened.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.state).fault.is_none()
    }

    /// Swallows everything from now on, with every connection open.
    pub(crate) fn swallow(&self) {
        lock(&self.state).hole = true;
    }
}

fn upwards(mut from: TcpStream, mut to: TcpStream, state: &Mutex<State>) {
    let mut chunk = [0; 8192];
    while let Ok(count @ 1..) = from.read(&mut chunk) {
        if !lock(state).hole && to.write_all(&chunk[..count]).is_err() {
            break;
        }
    }
    end(from, to, state);
}

fn downwards(mut from: TcpStream, mut to: TcpStream, state: &Mutex<State>) {
    while let Ok(mut frame) = read_frame(&mut from) {
        let hole = lock(state).hole;
        if hole {
            continue;
        }
        let cut = spoil(&mut lock(state), &mut frame);
        if to.write_all(&frame).is_err() || cut {
            break;
        }
    }
    end(from, to, state);
}

fn end(from: TcpStream, to: TcpStream, state: &Mutex<State>) {
    let mut state = lock(state);
    if state.hole {
        state.held.extend([from, to]);
        return;
    }
    drop(from.shutdown(Shutdown::Both));
    drop(to.shutdown(Shutdown::Both));
}

fn read_frame(from: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut frame = vec![0; 5];
    from.read_exact(&mut frame)?;
    let length = u32::from_be_bytes(frame[1..5].try_into().unwrap());
    frame.resize(1 + usize::try_from(length).unwrap(), 0);
    from.read_exact(&mut frame[5..])?;
    Ok(frame)
}

/// Does what is armed; whether the connection ends.
fn spoil(state: &mut State, frame: &mut Vec<u8>) -> bool {
    let streamed = frame[0] == b'd' && frame.get(5) == Some(&b'w');
    let (Some(fault), true) = (state.fault, streamed) else { return false };
    let kind = frame[TYPE_AT];
    match fault {
        Fault::RelationLost if kind == b'R' => frame.clear(),
        Fault::RelationLost => return false,
        _ if kind != b'I' => return false,
        Fault::CutAfterInserts(most) => {
            state.inserts += 1;
            if state.inserts < most {
                return false;
            }
            frame.truncate(frame.len() / 2);
        }
        Fault::UnknownType => frame[TYPE_AT] = b'?',
        Fault::TooManyColumns => {
            // The tag, the relation and 'N', then the number of columns.
            frame[TYPE_AT + 6] = 0x7F;
        }
        Fault::FrameTooLong => frame[1..5].copy_from_slice(&0x7FFF_FFFF_u32.to_be_bytes()),
    }
    if !state.always {
        state.fault = None;
    }
    matches!(fault, Fault::CutAfterInserts(_))
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
