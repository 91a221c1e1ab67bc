//! The model of Kafka transactions: who may write, what is undecided, and the requests that decide it.

use std::collections::{BTreeMap, VecDeque};

use fastrand::Rng;

use super::broker::Place;
use crate::kafka::{Deliveries, Error, TransactionFault};
use crate::relay::simulation::oracle::truth::Truth;

/// Place of the topic of states, behind those of events.
pub(in crate::relay::simulation) const STATE_PLACE: Place = (2, 0);

/// Most times that a request is sent until its answer is not waited for any more.
const TRIES_MAX: u32 = 3;

/// Number of turns for which a committed transaction is waited for that consumers do not see.
const TURNS_MAX: u32 = 40;

/// Coordinator of the one transactional id that all relays have.
#[derive(Debug)]
pub(in crate::relay::simulation) struct Coordinator {
    /// The producer that began last. No other may write or commit.
    owner: u64,
    /// Written and undecided events, by producer.
    open: BTreeMap<u64, Vec<(Place, usize)>>,
    /// Decided events that are not written into the partitions yet, and whether they are committed.
    markers: BTreeMap<Place, (bool, Vec<usize>)>,
    /// Decided and forgotten events: open in their partition until an operator ends them, or the next marker
    /// there does.
    left_open: BTreeMap<Place, Vec<usize>>,
    /// Number of times that an operator had to.
    operations: u32,
    /// Contents of states, by number.
    states: Vec<String>,
    /// The last committed state.
    committed: Option<usize>,
    /// Predecessors may go on: a planted bug.
    fences: bool,
}

impl Coordinator {
    pub(in crate::relay::simulation) const fn new(fences: bool) -> Self {
        Self {
            owner: 0,
            open: BTreeMap::new(),
            markers: BTreeMap::new(),
            left_open: BTreeMap::new(),
            operations: 0,
            states: Vec::new(),
            committed: None,
            fences,
        }
    }

    /// Begins as `init_transactions` does: aborts what was open. Returns false until that is done.
    pub(in crate::relay::simulation) fn begin(&mut self, producer: u64) -> bool {
        self.owner = producer;
        if self.fences && self.markers.is_empty() {
            let open = std::mem::take(&mut self.open);
            self.decide(open.into_values().flatten(), false);
        }
        self.markers.is_empty()
    }

    pub(super) const fn allows(&self, producer: u64) -> bool {
        self.owner == producer || !self.fences
    }

    pub(in crate::relay::simulation) fn write(&mut self, producer: u64, place: Place, events: &[usize]) {
        let open = self.open.entry(producer).or_default();
        open.extend(events.iter().map(|event| (place, *event)));
    }

    /// Handles EndTxn. It decides about whatever is open of the producer.
    fn end(&mut self, producer: u64, commits: bool, truth: &mut Truth) -> Result<(), TransactionFault> {
        if !self.allows(producer) {
            return Err(TransactionFault::Fenced);
        }
        truth.report(|| format!("  transaction of producer {producer} ends, commits: {commits}"));
        if self.markers.is_empty() {
            let open = self.open.remove(&producer).unwrap_or_default();
            let is_whole = open.is_empty() || open.iter().any(|(place, _)| *place == STATE_PLACE);
            if commits && !is_whole {
                truth.violate("L5: a transaction is committed before it has its state".to_owned());
            }
            self.decide(open, commits);
        }
        Ok(())
    }

    fn decide(&mut self, open: impl IntoIterator<Item = (Place, usize)>, commits: bool) {
        for (place, event) in open {
            self.markers.entry(place).or_insert((commits, Vec::new())).1.push(event);
        }
    }

    /// Writes the marker of the last decision into a partition; or, with `faults`, forgets it.
    pub(super) fn write_marker(&mut self, rng: &mut Rng, faults: bool, truth: &mut Truth) {
        let Some(place) = rng.choice(self.markers.keys().copied()) else { return };
        let Some((commits, events)) = self.markers.remove(&place) else { return };
        let open = self.left_open.entry(place).or_default();
        open.extend(events);
        if faults && rng.u8(..) < 4 {
            return truth.report(|| format!("  the marker for {place:?} is forgotten, commits: {commits}"));
        }
        // It counts for everything of the producer that is open there.
        for event in self.left_open.remove(&place).into_iter().flatten().filter(|_| commits) {
            match place {
                STATE_PLACE => self.committed = Some(event),
                (topic, partition) => truth.written(topic, partition, event),
            }
        }
    }

    /// Returns whether consumers see all that was committed in these places.
    pub(in crate::relay::simulation) fn is_seen(&self, wanted: impl Fn(Place) -> bool) -> bool {
        !self.markers.keys().chain(self.left_open.keys()).any(|place| wanted(*place))
    }

    /// Returns whether a transaction may begin.
    pub(super) fn is_complete(&self) -> bool {
        self.markers.is_empty()
    }

    /// Lets an operator abort what was forgotten, and restart the relays with another topic for their state. Returns false if nothing
    /// was forgotten.
    pub(in crate::relay::simulation) fn operate(&mut self, truth: &mut Truth) -> bool {
        let is_needed = self.is_complete() && !self.left_open.is_empty();
        if is_needed {
            truth.report(|| format!("an operator aborts {:?}", self.left_open));
            self.left_open.clear();
            self.operations += 1;
            self.start_over(truth);
        }
        is_needed
    }

    /// Gives the relays another topic for their state.
    pub(in crate::relay::simulation) fn start_over(&mut self, truth: &mut Truth) {
        self.committed = None;
        truth.start_over();
    }

    /// Returns a number for a state that is about to be written.
    pub(in crate::relay::simulation) fn keep(&mut self, state: &str) -> usize {
        self.states.push(state.to_owned());
        self.states.len() - 1
    }

    /// Returns the state that a consumer of committed records reads.
    pub(in crate::relay::simulation) fn state(&self) -> Option<&str> {
        self.states.get(self.committed?).map(String::as_str)
    }

    /// Returns the state that a consumer of all records reads.
    pub(in crate::relay::simulation) fn newest_state(&self) -> Option<&str> {
        self.states.last().map(String::as_str)
    }
}

/// The EndTxn requests of a client.
#[derive(Debug, Default)]
pub(in crate::relay::simulation) struct Ender {
    generation: u64,
    waits: bool,
    /// Request, and the number of times that it was sent.
    asks: Option<(bool, u32)>,
    sent: bool,
    requests: VecDeque<bool>,
    answers: VecDeque<Result<(), TransactionFault>>,
    strays: Vec<bool>,
    /// Number of further turns for which a promised commit is waited for, and the operations before.
    unseen: Option<(u32, u32)>,
}

impl Ender {
    /// Creates it. With `waits` a commit is done when it is visible, not when it is promised.
    pub(in crate::relay::simulation) fn new(generation: u64, waits: bool) -> Self {
        Self { generation, waits, ..Self::default() }
    }

    pub(in crate::relay::simulation) const fn ask(&mut self, commits: bool) {
        self.asks = Some((commits, 0));
        self.sent = false;
    }

    /// Breaks the connection: requests in flight may arrive much later. Returns true if there were any.
    pub(super) fn disconnect(&mut self) -> bool {
        let busy = !self.requests.is_empty() || !self.answers.is_empty();
        self.strays.extend(self.requests.drain(..));
        self.answers.clear();
        self.sent = false;
        busy
    }

    /// Stops waiting.
    pub(in crate::relay::simulation) fn die(&mut self) {
        self.disconnect();
        (self.asks, self.unseen) = (None, None);
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

    /// Makes the next step of a request; returns the decision that has ended, once it has.
    pub(in crate::relay::simulation) fn act(
        &mut self,
        producer: u64,
        coordinator: &mut Coordinator,
        deliveries: &Deliveries,
        truth: &mut Truth,
    ) -> Option<bool> {
        let (commits, tries) = self.asks?;
        if let Some((turns, operations)) = self.unseen {
            self.unseen = turns.checked_sub(1).map(|turns| (turns, operations));
            // A request that waits when an operator comes is stopped.
            return if self.unseen.is_none() || operations < coordinator.operations {
                self.end(deliveries, commits, Err(TransactionFault::Unknown))
            } else if coordinator.is_seen(|_| true) {
                self.end(deliveries, commits, Ok(()))
            } else {
                None
            };
        }
        if !self.sent {
            if tries == TRIES_MAX {
                return self.end(deliveries, commits, Err(TransactionFault::Unknown));
            }
            (self.asks, self.sent) = (Some((commits, tries + 1)), true);
            self.requests.push_back(commits);
        } else if let Some(commits) = self.requests.pop_front() {
            self.answers.push_back(coordinator.end(producer, commits, truth));
        } else if let Some(answer) = self.answers.pop_front() {
            if answer.is_ok() && commits && self.waits {
                self.unseen = Some((TURNS_MAX, coordinator.operations));
                return None;
            }
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
        (self.asks, self.unseen) = (None, None);
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
