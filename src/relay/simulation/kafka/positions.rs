//! The model of the topic in which relays keep their positions, and of the producer that each of them has for it.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use fastrand::Rng;
use serde_json::Value as Json;

use super::pipe::Kafka;
use crate::kafka::{self, TopicFault};
use crate::relay::progress::position_store::PositionLog;
use crate::relay::simulation::oracle::truth::Truth;
use crate::wal::{Lsn, Oid};

const TOPIC: &str = "positions";

/// Rights of the relays on the topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay::simulation) enum Rights {
    Everything,
    Reading,
    Nothing,
}

/// The topic. All relays have the same key.
#[derive(Debug)]
pub(in crate::relay::simulation) struct PositionTopic {
    rights: Rights,
    values: Vec<Option<Vec<u8>>>,
    /// Writers by process.
    writers: BTreeMap<usize, Writer>,
    /// Requests of a broken connection: they may arrive much later, and their answers are lost.
    strays: Vec<Written>,
}

#[derive(Debug, Clone)]
struct Written {
    bytes: Vec<u8>,
    /// Number of times that the server had gone back when its session began.
    history: usize,
}

/// A producer with one request in flight.
#[derive(Debug, Default)]
struct Writer {
    receipts: usize,
    queue: VecDeque<Request>,
    outcomes: BTreeMap<usize, Result<(), kafka::Error>>,
    history: usize,
}

#[derive(Debug)]
struct Request {
    receipt: usize,
    value: Written,
    /// True if it has arrived, and its answer is in flight.
    has_arrived: bool,
}

impl PositionTopic {
    pub(in crate::relay::simulation) const fn new(rights: Rights) -> Self {
        Self { rights, values: Vec::new(), writers: BTreeMap::new(), strays: Vec::new() }
    }

    /// Revokes the right to write.
    pub(in crate::relay::simulation) fn revoke(&mut self) {
        self.rights = Rights::Reading;
    }

    pub(in crate::relay::simulation) fn give_back(&mut self) {
        self.rights = Rights::Everything;
    }

    pub(in crate::relay::simulation) fn is_writable(&self) -> bool {
        self.rights == Rights::Everything
    }

    /// Begins a session.
    pub(in crate::relay::simulation) fn begin(&mut self, process: usize, history: usize) {
        self.writers.entry(process).or_default().history = history;
    }

    /// Makes one step of a position in flight.
    pub(in crate::relay::simulation) fn act(
        &mut self,
        rng: &mut Rng,
        frozen: &[usize],
        faults: bool,
        truth: &mut Truth,
    ) {
        if !self.strays.is_empty() && rng.u8(..) < 40 {
            let stray = self.strays.remove(0);
            if rng.bool() && self.is_writable() {
                self.append(stray, truth);
            }
        }
        let busy = self
            .writers
            .iter()
            .filter(|(process, writer)| !frozen.contains(process) && !writer.queue.is_empty());
        let busy: Vec<usize> = busy.map(|(process, _)| *process).collect();
        if let Some(process) = rng.choice(busy) {
            self.resume(process, rng, faults, truth);
        }
    }

    /// Makes one whole round for every relay.
    pub(in crate::relay::simulation) fn act_fairly(&mut self, rng: &mut Rng, truth: &mut Truth) {
        let processes: Vec<usize> = self.writers.keys().copied().collect();
        for process in processes {
            self.resume(process, rng, false, truth);
            self.resume(process, rng, false, truth);
        }
    }

    /// Ends a process. Requests in flight may arrive all the same.
    pub(in crate::relay::simulation) fn die(&mut self, process: usize) {
        if let Some(writer) = self.writers.remove(&process) {
            self.strays.extend(writer.queue.into_iter().map(|request| request.value));
        }
    }

    /// Returns what a relay reads, once the answer has arrived.
    pub(in crate::relay::simulation) fn read(
        &self,
        rng: &mut Rng,
        faults: bool,
    ) -> Option<Result<Vec<Option<Vec<u8>>>, kafka::Error>> {
        match rng.u8(..) {
            0..100 => None,
            100..110 if faults => Some(Err(failed("read", TopicFault::Passing))),
            _ if self.rights == Rights::Nothing => Some(Err(failed("read", TopicFault::Refused))),
            _ => Some(Ok(self.values.clone())),
        }
    }

    fn resume(&mut self, process: usize, rng: &mut Rng, faults: bool, truth: &mut Truth) {
        let rights = self.rights;
        let Some(writer) = self.writers.get_mut(&process) else { return };
        let Some(request) = writer.queue.front_mut() else { return };
        match rng.u8(..) {
            _ if rights != Rights::Everything => writer.answer(Err(failed("written", TopicFault::Refused))),
            // The connection breaks. It is sent again, and the first may still arrive, much later.
            0..12 if faults => {
                self.strays.push(request.value.clone());
                request.has_arrived = false;
            }
            // The client gives up.
            12..24 if faults => {
                self.strays.push(request.value.clone());
                writer.answer(Err(failed("written", TopicFault::Passing)));
            }
            _ if request.has_arrived => writer.answer(Ok(())),
            _ => {
                request.has_arrived = true;
                let value = request.value.clone();
                self.append(value, truth);
            }
        }
    }

    fn append(&mut self, Written { bytes, history }: Written, truth: &mut Truth) {
        truth.kept(Kept::parse(&bytes, history));
        self.values.push(Some(bytes));
    }
}

impl Writer {
    fn answer(&mut self, outcome: Result<(), kafka::Error>) {
        if let Some(request) = self.queue.pop_front() {
            self.outcomes.insert(request.receipt, outcome);
        }
    }
}

/// A relay's way to the topic, in place of its producer.
#[derive(Debug)]
pub(in crate::relay::simulation) struct ModelLog {
    pub(in crate::relay::simulation) kafka: Rc<RefCell<Kafka>>,
    pub(in crate::relay::simulation) process: usize,
}

impl PositionLog for ModelLog {
    type Receipt = usize;

    fn name(&self) -> &str {
        TOPIC
    }

    fn send(&self, _key: &[u8], value: &[u8]) -> Result<usize, kafka::Error> {
        let mut kafka = self.kafka.borrow_mut();
        let topic = kafka.positions.as_mut().ok_or_else(|| failed("written", TopicFault::Refused))?;
        let writer = topic.writers.entry(self.process).or_default();
        writer.receipts += 1;
        let (receipt, value) = (writer.receipts, Written { bytes: value.to_vec(), history: writer.history });
        writer.queue.push_back(Request { receipt, value, has_arrived: false });
        Ok(receipt)
    }

    fn outcome(&self, receipt: &mut usize) -> Option<Result<(), kafka::Error>> {
        let mut kafka = self.kafka.borrow_mut();
        kafka.positions.as_mut()?.writers.get_mut(&self.process)?.outcomes.remove(receipt)
    }
}

fn failed(doing: &'static str, fault: TopicFault) -> kafka::Error {
    let reason = "the model says so".to_owned();
    kafka::Error::PositionTopic { doing, topic: TOPIC.to_owned(), reason, fault }
}

/// A position as the oracles read it.
#[derive(Debug, Clone)]
pub(in crate::relay::simulation) struct Kept {
    epoch: u64,
    pub(in crate::relay::simulation) lsn: u64,
    pub(in crate::relay::simulation) timeline: u32,
    pub(in crate::relay::simulation) history: usize,
    pub(in crate::relay::simulation) tables: Vec<Oid>,
    pub(in crate::relay::simulation) accepted: Vec<Lsn>,
}

impl Kept {
    fn parse(bytes: &[u8], history: usize) -> Self {
        let json: Json = serde_json::from_slice(bytes).unwrap();
        let number = |json: &Json| u32::try_from(json.as_u64().unwrap()).unwrap();
        let lsn: Lsn = json["lsn"].as_str().unwrap().parse().unwrap();
        let tables = json["tables"].as_array().into_iter().flatten();
        let accepted = json["accepted"].as_array().into_iter().flatten();
        Self {
            epoch: json["epoch"].as_u64().unwrap(),
            lsn: lsn.get(),
            timeline: number(&json["timeline"]),
            history,
            tables: tables.map(|table| Oid(number(&table["oid"]))).collect(),
            accepted: accepted.map(|lsn| lsn.as_str().unwrap().parse().unwrap()).collect(),
        }
    }

    /// Returns whether it counts when `other` was written before it.
    pub(in crate::relay::simulation) fn counts_after(&self, other: &Self) -> bool {
        (self.epoch, self.lsn) >= (other.epoch, other.lsn)
    }
}
