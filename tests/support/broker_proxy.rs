use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::wait::{DEADLINE, eventually};

/// What goes wrong between the producer and its broker, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The first Produce request for the topic is answered with `NOT_LEADER_OR_FOLLOWER`, as by a broker whose log is not
    /// there yet; the second is on its way meanwhile, and is taken.
    FirstRefused,
    /// The second Produce request does not reach the broker; it is answered as the first was, as a broker does that takes
    /// it for a repeat.
    SecondTakenForFirst,
}

/// Stands between a broker that advertises this address and its clients, and forwards what they say.
#[derive(Debug)]
pub(crate) struct BrokerProxy {
    port: u16,
    stage: Arc<Mutex<Stage>>,
}

/// Of the one fault. Requests are known by their correlation id.
#[derive(Debug)]
enum Stage {
    Armed(Fault),
    Held { first: [u8; 4] },
    Passed { first: [u8; 4], second: [u8; 4] },
    Asked { first: [u8; 4] },
    Answered { answer: Vec<u8> },
    Over,
}

const PRODUCE: [u8; 2] = [0, 0];
const NOT_LEADER_OR_FOLLOWER: i16 = 6;

impl BrokerProxy {
    /// In front of the broker that listens, or will listen, at this port of this machine.
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

    /// What the broker must advertise.
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// For `bootstrap.servers`.
    pub(crate) fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Waits until the first Produce request has come, which is not answered yet.
    #[track_caller]
    pub(crate) fn wait_until_held(&self) {
        let held = || matches!(*lock(&self.stage), Stage::Held { .. });
        eventually(DEADLINE, "a Produce request is held", held);
    }

    /// Whether it has gone wrong.
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
            let (forwarded, answer) = request(&mut lock(&shared), frame, &name);
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

/// Until either side is gone.
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

/// What of a request goes on to the broker, and what is answered at once.
fn request(stage: &mut Stage, frame: Vec<u8>, topic: &str) -> (Vec<u8>, Option<Vec<u8>>) {
    let ours = frame.windows(topic.len()).any(|part| part == topic.as_bytes());
    if frame[4..6] != PRODUCE || !ours {
        return (frame, None);
    }
    let id: [u8; 4] = frame[8..12].try_into().unwrap();
    match std::mem::replace(stage, Stage::Over) {
        Stage::Armed(Fault::FirstRefused) => {
            *stage = Stage::Held { first: id };
            return (Vec::new(), None);
        }
        Stage::Held { first } => *stage = Stage::Passed { first, second: id },
        Stage::Armed(Fault::SecondTakenForFirst) => *stage = Stage::Asked { first: id },
        Stage::Answered { mut answer } => {
            answer[4..8].copy_from_slice(&id);
            return (Vec::new(), Some(answer));
        }
        other => *stage = other,
    }
    (frame, None)
}

/// What a client is given when the broker answers with this.
fn response(stage: &mut Stage, frame: Vec<u8>, topic: &str) -> Vec<u8> {
    let id = &frame[4..8];
    match stage {
        Stage::Passed { first, second } if id == second => {
            let refusal = refused(&frame, *first, topic);
            *stage = Stage::Over;
            [refusal, frame].concat()
        }
        Stage::Asked { first } if id == first => {
            *stage = Stage::Answered { answer: frame.clone() };
            frame
        }
        _ => frame,
    }
}

/// The answer to another Produce request for the same partition, as a refusal of this one. Behind the topic's name come the
/// number of partitions (one byte), the partition's index, its error code and the offset.
fn refused(answer: &[u8], id: [u8; 4], topic: &str) -> Vec<u8> {
    let mut refusal = answer.to_vec();
    let name = answer.windows(topic.len()).position(|part| part == topic.as_bytes()).unwrap();
    let code = name + topic.len() + 1 + 4;
    refusal[4..8].copy_from_slice(&id);
    refusal[code..code + 2].copy_from_slice(&NOT_LEADER_OR_FOLLOWER.to_be_bytes());
    refusal[code + 2..code + 10].copy_from_slice(&(-1_i64).to_be_bytes());
    refusal
}

fn lock(stage: &Mutex<Stage>) -> MutexGuard<'_, Stage> {
    stage.lock().unwrap_or_else(PoisonError::into_inner)
}
