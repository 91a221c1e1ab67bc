//! The open Kafka transaction: when it is committed, and which acknowledgements that releases.

use std::collections::BTreeSet;
use std::mem;
use std::time::{Duration, Instant};

use super::known::Known;
use super::state::{Place, Seen, Source, State};
use crate::ack::{Ticket, Window};
use crate::kafka::{self, Delivered, Reports, TransactionFault};
use crate::signal::StoredCheckpoint;
use crate::transaction::{Divergence, EventPosition, Identity};
use crate::wal::{Lsn, PgTimestamp, Xid};

/// Longest wait for the end of a source transaction, so that it is not split. An open Kafka transaction hides
/// what other producers have committed behind it, and the brokers abort it in the end.
const SPLIT_AGE: Duration = Duration::from_secs(5);

/// Most topics that a transaction may write to; its state names them.
const TOPICS_MAX: usize = 500;

/// Longest time that a transaction may be open.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Patience {
    /// Limit while the source has more rows.
    interval: Duration,
    /// Limit while a source transaction is not complete.
    split: Duration,
}

/// The open Kafka transaction: its records, its commit, and their acknowledgements.
///
/// # Invariants
/// 1. A record's acknowledgement goes to the ledger only once the transaction is committed that it is in.
/// 2. Nothing is committed unless every record is acknowledged, including the one that names the transaction's end.
/// 3. Nothing is handed over between the decision to commit and the commit's end; and nothing at all after a failure.
/// 4. Nothing is handed over to a producer of which a request to commit may still be on its way: it would commit whatever is
///    open when it arrives (KAFKA-17754).
#[derive(Debug)]
pub(crate) struct Batch {
    names: Names,
    known: Known,
    /// Source whose state is written; none for a snapshot, whose state is not.
    source: Option<Source>,
    patience: Patience,
    phase: Phase,
    /// Something was handed over.
    used: bool,
    /// Since when.
    began: Option<Instant>,
    /// End of the transaction if it is further than the last, with id and commit time of the source
    /// transaction there.
    place: Option<Place>,
    place_transaction: Option<(Xid, PgTimestamp)>,
    /// The same of the last state that was written, or read, from this stream.
    last: Option<(Place, Option<(Xid, PgTimestamp)>)>,
    /// Progress of incremental snapshots, if signals are enabled, now and in the last state.
    snapshots: Option<StoredCheckpoint>,
    last_snapshots: Option<StoredCheckpoint>,
    /// True if it was reported that they are too many for a state.
    has_left_out: bool,
    /// Open source transaction.
    transaction: Option<(Xid, PgTimestamp)>,
    /// Latest commit time that was seen.
    latest: PgTimestamp,
    /// Topics that it has written to.
    topics: BTreeSet<String>,
    /// Records that are not acknowledged yet.
    outstanding: usize,
    /// Nor is the state's.
    state_outstanding: bool,
    /// Acknowledged and not committed.
    held: Vec<Delivered>,
    /// The connection over which it is committed has broken: a request may have been sent twice.
    doubtful: bool,
    fault: Option<kafka::Error>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Records may be handed over.
    Open,
    /// To be committed when everything is acknowledged.
    Closing,
    Committing,
    /// To be aborted; the producer must not be used again.
    Failed,
    Aborting,
    Over,
}

/// Names of a transaction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    /// `transactional.id`.
    pub(crate) id: String,
    /// Topic of its state.
    pub(crate) state_topic: String,
}

/// Urgency of the next commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// The source has more to give.
    More,
    /// The source has no more.
    Idle,
    /// A caller waits for the commit.
    Now,
    /// The session is over: what is not committed comes again.
    Over,
}

/// Next action of the caller.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// No action yet.
    None,
    /// Send the state to this topic, under the slot's name.
    Send {
        topic: String,
        state: Box<State>,
    },
    Commit,
    Abort,
}

impl Patience {
    /// Creates it from the configured interval and the brokers' transaction timeout.
    pub(crate) fn new(interval: Duration, timeout: Duration) -> Self {
        let most = timeout / 2;
        Self { interval: interval.min(most), split: SPLIT_AGE.min(most) }
    }
}

impl Batch {
    /// Creates the batch of a stream, with nothing handed over.
    pub(crate) fn new(names: Names, known: Known, source: Source, patience: Patience) -> Self {
        Self {
            names,
            known,
            source: Some(source),
            patience,
            phase: Phase::Open,
            used: false,
            began: None,
            place: None,
            place_transaction: None,
            last: known.resume_place(),
            snapshots: None,
            last_snapshots: None,
            has_left_out: false,
            transaction: None,
            latest: known.latest(),
            topics: BTreeSet::new(),
            outstanding: 0,
            state_outstanding: false,
            held: Vec::new(),
            doubtful: false,
            fault: None,
        }
    }

    /// Sets the progress of incremental snapshots that the last state had.
    pub(crate) fn behind_snapshots(self, told: Option<StoredCheckpoint>) -> Self {
        Self { last_snapshots: told, ..self }
    }

    /// Creates the batch of a snapshot, whose rows have no position in the stream.
    pub(crate) fn of_snapshot(names: Names, patience: Patience) -> Self {
        let source = Source::default();
        Self { source: None, ..Self::new(names, Known::nothing(PgTimestamp(0)), source, patience) }
    }

    /// Returns whether records may be handed over.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Returns whether further rows may be sent in it.
    pub(crate) fn takes_rows(&self) -> bool {
        self.is_open() && self.topics.len() < TOPICS_MAX
    }

    /// Returns whether a commit or an abort is running.
    pub(crate) const fn is_busy(&self) -> bool {
        matches!(self.phase, Phase::Committing | Phase::Aborting)
    }

    /// Records that a source transaction begins.
    ///
    /// # Errors
    /// When the source does not have the history that the state describes.
    pub(crate) fn begin(&mut self, commit_lsn: Lsn, identity: Identity) -> Result<(), Divergence> {
        self.known.begin(commit_lsn, identity)?;
        self.transaction = match identity {
            Identity::Transaction { xid, commit_time } => Some((xid, commit_time)),
            Identity::Message(_) => None,
        };
        self.latest = identity.commit_time().map_or(self.latest, |time| time.max(self.latest));
        Ok(())
    }

    /// Records that everything of the source before `wal_end` has arrived.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub(crate) fn reach(&self, wal_end: Lsn) -> Result<(), Divergence> {
        self.known.reach(wal_end)
    }

    /// Returns whether the source may still turn out not to have the history of the state.
    pub(crate) const fn is_awaiting(&self) -> bool {
        self.known.is_awaiting()
    }

    /// Counts an event, before [`Self::has`] is called for it.
    pub(crate) fn count_event(&mut self, event: EventPosition) {
        self.known.count_event(event);
    }

    /// Returns whether an event is in Kafka since before this start.
    ///
    /// # Errors
    /// When another event at its position is.
    pub(crate) fn has(&self, event: EventPosition) -> Result<bool, Divergence> {
        self.known.has(event)
    }

    /// Returns the topic of its state, and the slot's name, which is the key.
    pub(crate) fn state_place(&self) -> (String, String) {
        let slot = self.source.as_ref().map(|source| source.slot.clone()).unwrap_or_default();
        (self.names.state_topic.clone(), slot)
    }

    /// Records that a record for this topic was handed over, with its position if it is an event's.
    pub(crate) fn sent(&mut self, topic: &str, place: Option<Place>) {
        self.used = true;
        if !self.topics.contains(topic) {
            self.topics.insert(topic.to_owned());
        }
        self.outstanding = self.outstanding.saturating_add(1);
        if place.is_some() {
            self.place = place;
            self.place_transaction = self.transaction;
        }
    }

    /// Returns whether it may end with the progress of incremental snapshots.
    pub(crate) const fn wants_snapshots(&self) -> bool {
        self.is_open() && self.used && self.source.is_some()
    }

    /// Stores their progress up to what was handed over.
    pub(crate) fn report_snapshots(&mut self, kept: StoredCheckpoint) {
        self.snapshots = Some(kept);
    }

    /// Records that a source transaction is complete.
    pub(crate) fn closed(&mut self, commit_lsn: Lsn, end_lsn: Lsn) {
        if let Some(place) = self.place.as_mut().filter(|place| place.event.commit_lsn == commit_lsn) {
            (place.more, place.end_lsn) = (false, Some(end_lsn));
        }
    }

    /// Returns the time of the next commit if no further event arrives.
    pub(crate) fn due(&self, in_transaction: bool) -> Option<Instant> {
        let began = self.began.filter(|_| self.is_open())?;
        began.checked_add(self.patience(in_transaction))
    }

    /// Decides what the caller must do now. Call it again until there is nothing.
    pub(crate) fn step(
        &mut self,
        now: Instant,
        urgency: Urgency,
        in_transaction: bool,
        window: &Window,
    ) -> Step {
        if urgency == Urgency::Over && matches!(self.phase, Phase::Open | Phase::Closing) {
            self.phase = if self.used { Phase::Failed } else { Phase::Over };
        }
        let wanted = self.is_open() && self.wants_commit(now, urgency, in_transaction, window);
        match self.phase {
            Phase::Open if wanted => {
                self.phase = Phase::Closing;
                self.state().unwrap_or_else(|| self.commit())
            }
            Phase::Closing => self.commit(),
            Phase::Failed => {
                self.phase = Phase::Aborting;
                Step::Abort
            }
            Phase::Open | Phase::Committing | Phase::Aborting | Phase::Over => Step::None,
        }
    }

    /// Collects delivery reports, and leaves in `reports` those for the ledger and the window. Returns
    /// whether the transaction is committed.
    pub(crate) fn take(&mut self, reports: &mut Reports) -> bool {
        reports.delivered.retain(|delivered| {
            let of_state = delivered.ticket == Ticket::STATE;
            self.state_outstanding &= !of_state;
            !of_state
        });
        let acknowledged: usize = reports.delivered.iter().map(|delivered| delivered.records).sum();
        let returned = acknowledged.saturating_add(reports.failed_records);
        self.outstanding = self.outstanding.saturating_sub(returned);
        self.held.append(&mut reports.delivered);
        let reason = reports.rejection.as_ref().map(|rejection| rejection.reason.clone());
        let reason = reason.or_else(|| reports.fatal.clone());
        let failed = reports.failed_records > 0 || reason.is_some();
        self.doubtful |= reports.coordinator_lost;
        let mut is_committed = false;
        match reports.ended.take() {
            Some(Ok(())) if self.phase == Phase::Committing => {
                self.start_again();
                mem::swap(&mut reports.delivered, &mut self.held);
                is_committed = true;
            }
            Some(Err(error)) if self.phase == Phase::Committing => {
                // What is committed cannot be aborted.
                self.phase = if error.is_unseen() { Phase::Over } else { Phase::Failed };
                self.fault = Some(error);
            }
            Some(outcome) => {
                // The reason that ends the producer explains more than the first failure.
                self.fault = outcome.err().filter(kafka::Error::is_fenced_or_refused).or(self.fault.take());
                self.phase = Phase::Over;
            }
            None => {}
        }
        if failed && matches!(self.phase, Phase::Open | Phase::Closing) {
            self.fault = Some(self.fail(reason.unwrap_or_default()));
        }
        if matches!(self.phase, Phase::Failed | Phase::Aborting | Phase::Over) {
            self.give_up(reports);
        }
        is_committed
    }

    /// Returns and clears the error for which it could not be committed.
    pub(crate) const fn take_fault(&mut self) -> Option<kafka::Error> {
        self.fault.take()
    }

    /// Records a fatal error of the producer.
    pub(crate) fn fail(&mut self, reason: String) -> kafka::Error {
        if matches!(self.phase, Phase::Open | Phase::Closing) {
            self.phase = Phase::Failed;
        }
        let (fault, doing) = (TransactionFault::Unknown, "completed");
        kafka::Error::Transaction { fault, doing, id: self.names.id.clone(), reason }
    }

    fn wants_commit(
        &mut self,
        now: Instant,
        urgency: Urgency,
        in_transaction: bool,
        window: &Window,
    ) -> bool {
        if !self.used {
            return false;
        }
        let began = *self.began.get_or_insert(now);
        let late = now.saturating_duration_since(began) >= self.patience(in_transaction);
        let soon = !in_transaction && (urgency == Urgency::Idle || window.is_half_full());
        late || soon || urgency == Urgency::Now || !window.has_room() || !self.takes_rows()
    }

    const fn patience(&self, in_transaction: bool) -> Duration {
        if in_transaction { self.patience.split } else { self.patience.interval }
    }

    /// Returns the step that writes its state, if it goes further than the last.
    fn state(&mut self) -> Option<Step> {
        let source = self.source.clone()?;
        let further = self.place.map(|place| (place, self.place_transaction));
        let (place, transaction) = further.or_else(|| self.last.filter(|_| self.snapshots_went_on()))?;
        self.last = Some((place, transaction));
        self.last_snapshots.clone_from(&self.snapshots);
        self.state_outstanding = true;
        let topic = self.names.state_topic.clone();
        let topics = self.topics.iter().cloned().collect();
        let seen = Some(Seen { latest: self.latest, transaction });
        let snapshots = self.snapshots.clone().filter(StoredCheckpoint::fits);
        let is_left_out = self.snapshots.is_some() && snapshots.is_none();
        if is_left_out && !mem::replace(&mut self.has_left_out, true) {
            tracing::warn!(
                "incremental snapshots of this many tables are not stored with the Kafka transactions: \
                 rows may repeat after a restart"
            );
        }
        Some(Step::Send { topic, state: Box::new(State { source, place, topics, seen, snapshots }) })
    }

    /// Returns whether rows of incremental snapshots were sent since the last state.
    fn snapshots_went_on(&self) -> bool {
        let [now, then] =
            [&self.snapshots, &self.last_snapshots].map(|kept| kept.clone().unwrap_or_default().state);
        now != then
    }

    fn commit(&mut self) -> Step {
        if self.outstanding > 0 || self.state_outstanding {
            return Step::None;
        }
        self.phase = Phase::Committing;
        Step::Commit
    }

    fn start_again(&mut self) {
        (self.phase, self.used, self.began, self.place) = (Phase::Open, false, None, None);
        self.topics.clear();
        if self.doubtful {
            let reason = "its connection broke, and a request may arrive once more".to_owned();
            self.fault = Some(self.fail(reason));
        }
    }

    /// Reports everything in it as failed: none of it is ever acknowledged, and a new start reads the state
    /// that exists.
    fn give_up(&mut self, reports: &mut Reports) {
        for Delivered { records, bytes, .. } in self.held.drain(..) {
            reports.failed_records = reports.failed_records.saturating_add(records);
            reports.failed_bytes = reports.failed_bytes.saturating_add(bytes);
        }
    }
}
