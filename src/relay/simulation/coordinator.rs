//! The model of Kafka transactions: who may write, what is undecided, and the requests that decide it.

use std::collections::{BTreeMap, VecDeque};

use fastrand::Rng;

use super::broker::Place;
use super::truth::Truth;
use crate::kafka::{Deliveries, Error, TransactionFault};

/// The place of the topic that says how far transactions go, behind those of events.
pub(super) const STATE_PLACE: Place = (2, 0);

/// How often a request is sent until nobody waits for its answer any more.
const TRIES_MAX: u32 = 3;

/// Of the one transactional id that all relays have.
#[derive(Debug)]
pub(super) struct Coordinator {
    /// The producer that began last. No other may write or commit.
    owner: u64,
    /// What is written and undecided, by producer.
    open: BTreeMap<u64, Vec<(Place, usize)>>,
    /// What states say, by number.
    states: Vec<String>,
    /// The last committed state.
    committed: Option<usize>,
    /// Predecessors may go on: a planted bug.
    fences: bool,
}

impl Coordinator {
    pub(super) const fn new(fences: bool) -> Self {
        Self { owner: 0, open: BTreeMap::new(), states: Vec::new(), committed: None, fences }
    }

    /// `init_transactions`: what was open is aborted.
    pub(super) fn begin(&mut self, producer: u64) {
        self.owner = producer;
        if self.fences {
            self.open.clear();
        }
    }

    pub(super) const fn allows(&self, producer: u64) -> bool {
        self.owner == producer || !self.fences
    }

    pub(super) fn write(&mut self, producer: u64, place: Place, events: &[usize]) {
        let open = self.open.entry(producer).or_default();
        open.extend(events.iter().map(|event| (place, *event)));
    }

    /// EndTxn. It decides about whatever is open of the producer.
    fn end(&mut self, producer: u64, commits: bool, truth: &mut Truth) -> Result<(), TransactionFault> {
        if !self.allows(producer) {
            return Err(TransactionFault::Fenced);
        }
        truth.tell(|| format!("  transaction of producer {producer} ends, commits: {commits}"));
        let open = self.open.remove(&producer).unwrap_or_default();
        for (place, event) in open.into_iter().filter(|_| commits) {
            match place {
                STATE_PLACE => self.committed = Some(event),
                (topic, partition) => truth.written(topic, partition, event),
            }
        }
        Ok(())
    }

    /// A number for a state that is about to be written.
    pub(super) fn keep(&mut self, state: &str) -> usize {
        self.states.push(state.to_owned());
        self.states.len() - 1
    }

    /// What a consumer reads that sees committed records only.
    pub(super) fn state(&self) -> Option<&str> {
        self.states.get(self.committed?).map(String::as_str)
    }

    /// What a consumer reads that sees all.
    pub(super) fn newest_state(&self) -> Option<&str> {
        self.states.last().map(String::as_str)
    }
}

/// The EndTxn requests of a client.
#[derive(Debug, Default)]
pub(super) struct Ender {
    generation: u64,
    /// What is asked for, and how often it was sent.
    asks: Option<(bool, u32)>,
    sent: bool,
    requests: VecDeque<bool>,
    answers: VecDeque<Result<(), TransactionFault>>,
    strays: Vec<bool>,
}

impl Ender {
    pub(super) fn new(generation: u64) -> Self {
        Self { generation, ..Self::default() }
    }

    pub(super) const fn ask(&mut self, commits: bool) {
        self.asks = Some((commits, 0));
        self.sent = false;
    }

    /// The connection breaks: what was on its way may arrive much later. True when something was.
    pub(super) fn disconnect(&mut self) -> bool {
        let busy = !self.requests.is_empty() || !self.answers.is_empty();
        self.strays.extend(self.requests.drain(..));
        self.answers.clear();
        self.sent = false;
        busy
    }

    /// Nobody waits any more.
    pub(super) fn die(&mut self) {
        self.disconnect();
        self.asks = None;
    }

    pub(super) fn deliver_stray(
        &mut self,
        producer: u64,
        coordinator: &mut Coordinator,
        rng: &mut Rng,
        truth: &mut Truth,
    ) {
        if !self.strays.is_empty() {
            let commits = self.strays.remove(0);
            if rng.bool() {
                coordinator.end(producer, commits, truth).ok();
            }
        }
    }

    /// The next thing that happens to a request; what has ended, once it has.
    pub(super) fn act(
        &mut self,
        producer: u64,
        coordinator: &mut Coordinator,
        deliveries: &Deliveries,
        truth: &mut Truth,
    ) -> Option<bool> {
        let (commits, tries) = self.asks?;
        if !self.sent {
            if tries == TRIES_MAX {
                return self.end(deliveries, commits, Err(TransactionFault::Unknown));
            }
            (self.asks, self.sent) = (Some((commits, tries + 1)), true);
            self.requests.push_back(commits);
        } else if let Some(commits) = self.requests.pop_front() {
            self.answers.push_back(coordinator.end(producer, commits, truth));
        } else if let Some(answer) = self.answers.pop_front() {
            return self.end(deliveries, commits, answer);
        }
        None
    }

    fn end(
        &mut self,
        deliveries: &Deliveries,
        commits: bool,
        outcome: Result<(), TransactionFault>,
    ) -> Option<bool> {
        self.asks = None;
        let failed = |fault| Error::Transaction {
            fault,
            doing: if commits { "committed" } else { "aborted" },
            id: "id".to_owned(),
            reason: "the model says so".to_owned(),
        };
        deliveries.ended(self.generation, outcome.map_err(failed));
        Some(commits)
    }
}
