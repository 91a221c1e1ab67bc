use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::wait::{DEADLINE, eventually};

/// Fault between the producer and its broker, which happens once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The first Produce request for the topic goes no further, and nothing behind it, until it is released.
    FirstHeld,
    /// The second Produce request does not reach the broker; it is answered as the first was, as a broker does that takes
    /// it for a repeat.
    SecondTakenForFirst,
    /// Likewise, and the answer is `DUPLICATE_SEQUENCE_NUMBER`: a repeat that the broker does not find any more.
    SecondTakenForOld,
    /// No EndTxn request of the producer that sends the first one goes further, until they are released.
    CommitHeld,
    /// The first EndTxn request is held up until it is released, and its connection breaks.
    CommitDelayed,
    /// The first EndTxn request is delayed until it is released, and is not answered.
    CommitUnanswered,
    /// The partitions do not receive the end of a transaction until it is released: WriteTxnMarkers requests, which the
    /// broker sends to itself, are not forwarded.
    MarkersHeld,
}

/// Proxy between a broker that advertises this address and its clients.
#[derive(Debug)]
pub(crate) struct BrokerProxy {
    port: u16,
    stage: Arc<Mutex<Stage>>,
}

/// Of the one fault. Requests are known by their correlation id.
#[derive(Debug)]
enum Stage {
    Armed(Fault),
    Held,
    /// EndTxn of this producer id and epoch.
    CommitHeld([u8; 10]),
    CommitDelayed,
    MarkersHeld,
    Asked {
        first: [u8; 4],
        fault: Fault,
    },
    Answered {
        answer: Vec<u8>,
    },
    Over,
}

const PRODUCE: [u8; 2] = [0, 0];
const END_TXN: [u8; 2] = [0, 26];
const WRITE_TXN_MARKERS: [u8; 2] = [0, 27];
const DUPLICATE_SEQUENCE_NUMBER: i16 = 46;

impl BrokerProxy {
    /// Starts a proxy for the broker that listens, or will listen, at this port of this machine.
    pub(crate) fn start(broker_port: u16, topic: &str, fault: Fault) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let stage = Arc::new(Mutex::new(Stage::Armed(fault)));
        let (shared, topic) = (Arc::clone(&stage), topic.to_owned());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // A broker that is not there yet is asked again by the client.
                if let Ok(broker) = TcpStream::connect((Ipv4Addr::LOCALHOST, broker_port)) {
                    forward(&client, &broker, &shared, &topic);
                }
            }
        });
        Self { port, stage }
    }

    /// Returns the port that the broker must advertise.
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the value of `bootstrap.servers`.
    pub(crate) fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Waits until the first Produce or EndTxn request has come, which is not answered yet.
    #[track_caller]
    pub(crate) fn wait_until_held(&self) {
        eventually(DEADLINE, "a request is held", || {
            matches!(
                *lock(&self.stage),
                Stage::Held | Stage::CommitHeld(_) | Stage::CommitDelayed | Stage::MarkersHeld
            )
        });
    }

    /// Lets it go on.
    pub(crate) fn release(&self) {
        *lock(&self.stage) = Stage::Over;
    }

    /// Returns whether the fault has happened.
    pub(crate) fn is_over(&self) -> bool {
        matches!(*lock(&self.stage), Stage::Over)
    }
}

fn forward(client: &TcpStream, broker: &TcpStream, stage: &Arc<Mutex<Stage>>, topic: &str) {
    let clone = |stream: &TcpStream| stream.try_clone().unwrap();
    let (from, to, back) = (clone(client), clone(broker), clone(client));
    let (shared, name) = (Arc::clone(stage), topic.to_owned());
    thread::spawn(move || {
        pump(from, &to, |frame| {
            let (delays, breaks) = delays(&mut lock(&shared), &frame);
            if delays {
                if breaks {
                    drop(back.shutdown(Shutdown::Both));
                }
                eventually(DEADLINE, "the request is released", || matches!(*lock(&shared), Stage::Over));
                return frame;
            }
            let (forwarded, answer) = request(&mut lock(&shared), frame, &name);
            eventually(DEADLINE, "the request is released", || !holds(&lock(&shared), &forwarded));
            if let Some(answer) = answer {
                (&back).write_all(&answer).unwrap();
            }
            forwarded
        });
    });
    let (from, to) = (clone(broker), clone(client));
    let (shared, name) = (Arc::clone(stage), topic.to_owned());
    thread::spawn(move || pump(from, &to, |frame| response(&mut lock(&shared), frame, &name)));
}

/// Forwards frames until either side is closed.
fn pump(mut from: TcpStream, mut to: &TcpStream, mut change: impl FnMut(Vec<u8>) -> Vec<u8>) {
    while let Ok(frame) = read_frame(&mut from) {
        if to.write_all(&change(frame)).is_err() {
            break;
        }
    }
    drop(from.shutdown(Shutdown::Both));
    drop(to.shutdown(Shutdown::Both));
}

fn read_frame(from: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    from.read_exact(&mut frame)?;
    let length = u32::from_be_bytes(frame.as_slice().try_into().unwrap());
    frame.resize(4 + usize::try_from(length).unwrap(), 0);
    from.read_exact(&mut frame[4..])?;
    Ok(frame)
}

/// Returns the frame that is forwarded to the broker for a request, and the answer that is sent at once, if any.
fn request(stage: &mut Stage, frame: Vec<u8>, topic: &str) -> (Vec<u8>, Option<Vec<u8>>) {
    if let (Stage::Armed(Fault::CommitHeld), Some(who)) = (&*stage, committer(&frame)) {
        *stage = Stage::CommitHeld(who);
    }
    if matches!(stage, Stage::Armed(Fault::MarkersHeld)) && frame[4..6] == WRITE_TXN_MARKERS {
        *stage = Stage::MarkersHeld;
    }
    let ours = frame.windows(topic.len()).any(|part| part == topic.as_bytes());
    if frame[4..6] != PRODUCE || !ours {
        return (frame, None);
    }
    let id: [u8; 4] = frame[8..12].try_into().unwrap();
    match std::mem::replace(stage, Stage::Over) {
        Stage::Armed(
            fault @ (Fault::CommitDelayed | Fault::CommitUnanswered | Fault::CommitHeld | Fault::MarkersHeld),
        ) => *stage = Stage::Armed(fault),
        Stage::Armed(Fault::FirstHeld) => *stage = Stage::Held,
        Stage::Armed(fault) => *stage = Stage::Asked { first: id, fault },
        Stage::Answered { mut answer } => {
            answer[4..8].copy_from_slice(&id);
            return (Vec::new(), Some(answer));
        }
        other => *stage = other,
    }
    (frame, None)
}

/// Returns whether a request is the one that arrives late, and whether its connection breaks.
fn delays(stage: &mut Stage, frame: &[u8]) -> (bool, bool) {
    let breaks = matches!(stage, Stage::Armed(Fault::CommitDelayed));
    let late = breaks || matches!(stage, Stage::Armed(Fault::CommitUnanswered));
    let delays = late && committer(frame).is_some();
    if delays {
        *stage = Stage::CommitDelayed;
    }
    (delays, breaks)
}

/// Returns whether a request must wait.
fn holds(stage: &Stage, frame: &[u8]) -> bool {
    match stage {
        Stage::Held => true,
        Stage::CommitHeld(who) => committer(frame) == Some(*who),
        Stage::MarkersHeld => frame.get(4..6) == Some(&WRITE_TXN_MARKERS),
        _ => false,
    }
}

/// Returns the producer id and the epoch of an EndTxn request, which ends with them and one more byte.
fn committer(frame: &[u8]) -> Option<[u8; 10]> {
    let end = frame.len().checked_sub(1).filter(|_| frame.get(4..6) == Some(&END_TXN))?;
    frame[end - 10..end].try_into().ok()
}

/// Returns the frame that the client receives for this answer of the broker.
fn response(stage: &mut Stage, frame: Vec<u8>, topic: &str) -> Vec<u8> {
    let id = &frame[4..8];
    if let Stage::Asked { first, fault } = stage
        && id == first
    {
        let old = *fault == Fault::SecondTakenForOld;
        *stage = Stage::Answered { answer: if old { without_offset(&frame, topic) } else { frame.clone() } };
    }
    frame
}

/// Returns the answer of a broker that recognizes the sequence number and does not know the record's offset. The
/// topic's name is followed by the number of partitions (one byte), the partition's index, its error code and the
/// offset.
fn without_offset(answer: &[u8], topic: &str) -> Vec<u8> {
    let mut answer = answer.to_vec();
    let name = answer.windows(topic.len()).position(|part| part == topic.as_bytes()).unwrap();
    let code = name + topic.len() + 1 + 4;
    answer[code..code + 2].copy_from_slice(&DUPLICATE_SEQUENCE_NUMBER.to_be_bytes());
    answer[code + 2..code + 10].copy_from_slice(&(-1_i64).to_be_bytes());
    answer
}

fn lock(stage: &Mutex<Stage>) -> MutexGuard<'_, Stage> {
    stage.lock().unwrap_or_else(PoisonError::into_inner)
}
