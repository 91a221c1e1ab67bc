//! The model of librdkafka: an idempotent producer with the gapless guarantee, its queues and its requests on their way.

use std::collections::{BTreeMap, VecDeque};

use fastrand::Rng;
use rdkafka::ClientContext as _;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use super::broker::{Answer, Cluster, Place, Request};
use super::coordinator::Ender;
use crate::ack::Ticket;
use crate::connect::record::Fingerprint;
use crate::kafka::{Cause, Deliveries, RecordName, Rejection, ReportPlace};
use crate::relay::simulation::bug::Bug;
use crate::relay::simulation::oracle::truth::Truth;
use crate::relay::simulation::rows::table;

/// `max.in.flight`
const REQUESTS_MAX: usize = 5;
/// Number of tries of a request by a client that gives up.
const TRIES_MAX: u32 = 2;

#[derive(Debug)]
pub(in crate::relay::simulation) struct Queued {
    pub(super) ticket: Ticket,
    pub(in crate::relay::simulation) bytes: usize,
    pub(in crate::relay::simulation) event: usize,
}

#[derive(Debug)]
struct Batch {
    base: u64,
    records: Vec<Queued>,
    /// True if it, or its answer, is in flight.
    sent: bool,
    tries: u32,
}

/// Batches of a client for one partition.
#[derive(Debug, Default)]
struct Lane {
    queue: VecDeque<Queued>,
    next: u64,
    batches: VecDeque<Batch>,
    /// In flight to the leader, in the order of the connection.
    requests: VecDeque<Request>,
    /// Answers in flight.
    answers: VecDeque<(u64, Answer)>,
    /// Requests of a broken connection: they may arrive much later, and their answers are lost.
    strays: Vec<Request>,
    /// The last offset that was reported.
    reported: i64,
}

#[derive(Debug)]
pub(in crate::relay::simulation) struct Client {
    id: u64,
    bug: Option<Bug>,
    deliveries: Deliveries,
    lanes: BTreeMap<Place, Lane>,
    fatal: bool,
    /// A record of the transaction has failed: no further one is taken until it is aborted.
    abortable: bool,
    /// A record was refused since the last query.
    refused: bool,
    /// Refused records whose reports come later than that.
    unreported: Vec<(Place, Vec<Queued>)>,
    /// Once it is stopped, what it does not send is reported when it is purged, and not before.
    withholds: bool,
    withheld: Vec<(Place, Vec<Queued>)>,
    /// Ender of transactions, with exactly-once.
    pub(in crate::relay::simulation) ender: Option<Ender>,
}

impl Client {
    pub(in crate::relay::simulation) fn new(id: u64, bug: Option<Bug>, deliveries: Deliveries) -> Self {
        let (lanes, unreported) = (BTreeMap::new(), Vec::new());
        let (fatal, abortable, refused, ender) = (false, false, false, None);
        let (withholds, withheld) = (id / 2 % 2 == 1, Vec::new());
        Self { id, bug, deliveries, lanes, fatal, abortable, refused, unreported, withholds, withheld, ender }
    }

    pub(in crate::relay::simulation) const fn is_fatal(&self) -> bool {
        self.fatal
    }

    /// Returns whether a record was refused since the last call.
    pub(in crate::relay::simulation) const fn take_refused(&mut self) -> bool {
        std::mem::replace(&mut self.refused, false)
    }

    pub(super) const fn is_abortable(&self) -> bool {
        self.abortable
    }

    pub(in crate::relay::simulation) fn send(&mut self, place: Place, queued: Queued) {
        self.lanes.entry(place).or_default().queue.push_back(queued);
    }

    /// Makes one step of one of its partitions.
    pub(in crate::relay::simulation) fn act(
        &mut self,
        rng: &mut Rng,
        cluster: &mut Cluster,
        truth: &mut Truth,
        faults: bool,
    ) {
        self.end_transactions(rng, cluster, truth, faults);
        if !self.unreported.is_empty() && rng.u8(0..4) == 0 {
            self.report_refused();
        }
        let busy: Vec<Place> =
            self.lanes.iter().filter(|(_, lane)| lane.is_busy()).map(|(place, _)| *place).collect();
        let Some(place) = rng.choice(busy) else { return };
        match rng.u8(..) {
            0..4 if faults => self.disconnect(place, rng),
            4..14 => self.deliver_stray(place, rng, cluster, truth),
            0..110 => self.transmit(place, rng),
            110..190 => self.arrive(place, cluster, truth),
            190.. => self.answer(place),
        }
    }

    /// Makes one whole round for every partition.
    pub(in crate::relay::simulation) fn act_fairly(
        &mut self,
        rng: &mut Rng,
        cluster: &mut Cluster,
        truth: &mut Truth,
    ) {
        self.end_transactions(rng, cluster, truth, false);
        self.report_refused();
        let places: Vec<Place> = self.lanes.keys().copied().collect();
        for place in places {
            self.deliver_stray(place, rng, cluster, truth);
            self.transmit(place, rng);
            self.arrive(place, cluster, truth);
            self.answer(place);
        }
    }

    /// Ends its process. Requests in flight may arrive all the same.
    pub(in crate::relay::simulation) fn die(&mut self) {
        self.unreported.clear();
        self.withheld.clear();
        for lane in self.lanes.values_mut() {
            lane.queue.clear();
            lane.batches.clear();
            lane.lose_connection();
        }
        if let Some(ender) = &mut self.ender {
            ender.die();
        }
    }

    pub(in crate::relay::simulation) fn purge(&mut self) {
        self.report_refused();
        self.abortable = false;
        for (place, records) in std::mem::take(&mut self.withheld) {
            self.fail(place, records, Code::PurgeQueue);
        }
        let places: Vec<Place> = self.lanes.keys().copied().collect();
        for place in places {
            let Some(lane) = self.lanes.get_mut(&place) else { continue };
            lane.lose_connection();
            let queued = lane.queue.drain(..).collect();
            let sent = lane.batches.drain(..).flat_map(|batch| batch.records).collect();
            self.fail(place, sent, Code::PurgeInflight);
            self.fail(place, queued, Code::PurgeQueue);
        }
    }

    /// Makes one step of a commit or an abort.
    fn end_transactions(&mut self, rng: &mut Rng, cluster: &mut Cluster, truth: &mut Truth, faults: bool) {
        let Some(coordinator) = &mut cluster.coordinator else { return };
        coordinator.write_marker(rng, faults, truth);
        let Some(ender) = &mut self.ender else { return };
        match rng.u8(..) {
            0..40 if faults => {
                if ender.disconnect() && self.bug != Some(Bug::TrustsRetriedCommits) {
                    self.deliveries.lost_coordinator();
                }
            }
            40..70 => ender.deliver_stray(self.id, coordinator, rng, truth),
            _ => {
                if ender.act(self.id, coordinator, &self.deliveries, truth) == Some(false) {
                    self.purge();
                }
            }
        }
    }

    /// Breaks the connection and restores it.
    fn disconnect(&mut self, place: Place, rng: &mut Rng) {
        let Some(lane) = self.lanes.get_mut(&place) else { return };
        let arrives = rng.usize(0..=lane.requests.len());
        lane.requests.truncate(arrives);
        lane.lose_connection();
        lane.batches.iter_mut().for_each(|batch| batch.sent = false);
        if self.fatal {
            self.stop(place);
        } else if self.bug == Some(Bug::GivesUp) {
            self.give_up(place);
        }
    }

    /// Restarts sequence numbers, as in librdkafka's issue 3712.
    pub(in crate::relay::simulation) fn begin_sequence_again(&mut self, rng: &mut Rng, truth: &mut Truth) {
        let idle = self.lanes.iter_mut().filter(|(_, lane)| lane.batches.is_empty() && lane.next > 0);
        if let Some((place, lane)) = rng.choice(idle.collect::<Vec<_>>()) {
            lane.next = 0;
            truth.except(place.0, place.1);
        }
    }

    fn transmit(&mut self, place: Place, rng: &mut Rng) {
        let not_idempotent = self.bug == Some(Bug::NotIdempotent);
        let requests_max = if not_idempotent { 2 * REQUESTS_MAX } else { REQUESTS_MAX };
        let Some(lane) = self.lanes.get_mut(&place) else { return };
        if lane.batches.len() < requests_max && !lane.queue.is_empty() && !self.fatal {
            let length = rng.usize(1..=lane.queue.len().min(3));
            let records = lane.queue.drain(..length).collect();
            lane.batches.push_back(Batch { base: lane.next, records, sent: false, tries: 0 });
            lane.next += length as u64;
        }
        if let Some(batch) = lane.batches.iter_mut().find(|batch| !batch.sent) {
            (batch.sent, batch.tries) = (true, batch.tries + 1);
            let events = batch.records.iter().map(|queued| queued.event).collect();
            lane.requests.push_back(Request { producer: self.id, base: batch.base, events });
        }
    }

    fn arrive(&mut self, place: Place, cluster: &mut Cluster, truth: &mut Truth) {
        let Some(lane) = self.lanes.get_mut(&place) else { return };
        if let Some(request) = lane.requests.pop_front() {
            let answer = cluster.produce(place, &request, truth);
            lane.answers.push_back((request.base, answer));
        }
    }

    fn deliver_stray(&mut self, place: Place, rng: &mut Rng, cluster: &mut Cluster, truth: &mut Truth) {
        let Some(lane) = self.lanes.get_mut(&place) else { return };
        if !lane.strays.is_empty() {
            let request = lane.strays.remove(0);
            if rng.bool() {
                cluster.produce(place, &request, truth);
            }
        }
    }

    fn answer(&mut self, place: Place) {
        let Some(lane) = self.lanes.get_mut(&place) else { return };
        let Some((base, answer)) = lane.answers.pop_front() else { return };
        let Some(index) = lane.batches.iter().position(|batch| batch.base == base) else { return };
        match answer {
            Answer::Written(offset) => self.written(place, index, offset),
            Answer::NotLeader => {
                lane.batches[index].sent = false;
                if self.fatal {
                    self.stop(place);
                } else if self.bug == Some(Bug::GivesUp) {
                    self.give_up(place);
                }
            }
            Answer::OutOfOrder if index > 0 && !self.fatal => lane.batches[index].sent = false,
            Answer::OutOfOrder => {
                let batch = lane.batches.remove(index);
                self.fail(
                    place,
                    batch.map(|batch| batch.records).unwrap_or_default(),
                    Code::OutOfOrderSequenceNumber,
                );
                self.become_fatal();
            }
            Answer::Fenced => {
                let batch = lane.batches.remove(index);
                self.fail(place, batch.map(|batch| batch.records).unwrap_or_default(), Code::Fenced);
                self.become_fatal();
            }
            Answer::Refused => {
                let batch = lane.batches.remove(index);
                let gapless = self.bug != Some(Bug::NotGapless) && self.ender.is_none();
                if !gapless {
                    // The sequence continues as if the batch had never been.
                    lane.next = base;
                    lane.batches.iter_mut().skip(index).for_each(|batch| {
                        (batch.base, batch.sent) = (lane.next, false);
                        lane.next += batch.records.len() as u64;
                    });
                    lane.lose_connection();
                }
                let records = batch.map(|batch| batch.records).unwrap_or_default();
                self.refused = true;
                if self.ender.is_some() {
                    self.abortable = true;
                    self.unreported.push((place, records));
                    return;
                }
                self.fail(place, records, Code::InvalidRecord);
                if gapless {
                    self.become_fatal();
                }
            }
        }
    }

    /// Completes a batch that was written, and with it those before, which a later written batch proves.
    fn written(&mut self, place: Place, index: usize, offset: i64) {
        let Some(lane) = self.lanes.get_mut(&place) else { return };
        let from = if self.bug == Some(Bug::NotIdempotent) { index } else { 0 };
        let done: Vec<Batch> = lane.batches.drain(from..=index).collect();
        let last = done.len() - 1;
        for (number, batch) in done.into_iter().enumerate() {
            let mut offset = if number == last { offset } else { -1001 };
            for queued in batch.records {
                self.succeed(place, &queued, offset);
                offset += i64::from(offset >= 0);
            }
        }
    }

    fn succeed(&mut self, place: Place, queued: &Queued, offset: i64) {
        let Some(lane) = self.lanes.get_mut(&place) else { return };
        let believed = self.bug == Some(Bug::BelievesReports);
        let offset = if believed { offset.max(lane.reported + 1) } else { offset };
        lane.reported = lane.reported.max(offset);
        let at = ReportPlace { topic: table::topic_name(place.0), partition: place.1, offset };
        self.deliveries.acknowledged(queued.ticket, at, queued.bytes, || RecordName {
            event_id: Some(queued.event.to_string()),
            fingerprint: fingerprint(queued),
        });
    }

    fn fail(&mut self, place: Place, records: Vec<Queued>, code: Code) {
        for queued in records {
            if self.bug == Some(Bug::FailureIsSuccess) {
                let beyond = self.lanes.get(&place).map_or(0, |lane| lane.reported + 1);
                self.succeed(place, &queued, beyond);
                continue;
            }
            let rejection = Rejection {
                ticket: queued.ticket,
                topic: table::topic_name(place.0).to_owned(),
                partition: Some(place.1),
                event_id: Some(queued.event.to_string()),
                fingerprint: fingerprint(&queued),
                cause: Cause::Code(code),
                reason: code.to_string(),
            };
            self.deliveries.rejected(rejection, queued.bytes);
        }
    }

    fn report_refused(&mut self) {
        for (place, records) in std::mem::take(&mut self.unreported) {
            self.fail(place, records, Code::InvalidRecord);
        }
    }

    /// Stops sending, by the gapless guarantee. Records in flight are answered first.
    fn become_fatal(&mut self) {
        self.fatal = true;
        self.deliveries.error(KafkaError::Global(Code::GaplessGuarantee), "a record failed");
        let places: Vec<Place> = self.lanes.keys().copied().collect();
        places.into_iter().for_each(|place| self.stop(place));
    }

    /// Fails what is not on its way.
    fn stop(&mut self, place: Place) {
        let Some(lane) = self.lanes.get_mut(&place) else { return };
        let (sent, unsent): (VecDeque<_>, Vec<_>) = {
            let batches = std::mem::take(&mut lane.batches);
            let (sent, unsent): (Vec<_>, Vec<_>) = batches.into_iter().partition(|batch| batch.sent);
            (sent.into(), unsent)
        };
        lane.batches = sent;
        let queued = lane.queue.drain(..);
        let failed = unsent.into_iter().flat_map(|batch| batch.records).chain(queued).collect();
        self.fail_or_withhold(place, failed);
    }

    /// Fails what a stopped client does not send any more. librdkafka may keep some of it until it is purged.
    fn fail_or_withhold(&mut self, place: Place, records: Vec<Queued>) {
        if self.withholds {
            self.withheld.push((place, records));
        } else {
            self.fail(place, records, Code::GaplessGuarantee);
        }
    }

    /// Drops what the client of the planted bug has tried too often, and continues with the next.
    fn give_up(&mut self, place: Place) {
        let Some(lane) = self.lanes.get_mut(&place) else { return };
        if lane.batches.front().is_none_or(|batch| batch.sent || batch.tries < TRIES_MAX) {
            return;
        }
        let Some(batch) = lane.batches.pop_front() else { return };
        lane.batches.iter_mut().for_each(|other| {
            other.base -= batch.records.len() as u64;
            other.sent = false;
        });
        lane.next -= batch.records.len() as u64;
        lane.lose_connection();
        self.fail(place, batch.records, Code::MessageTimedOut);
    }
}

/// Makes a fingerprint, which is never looked up without dead letters.
fn fingerprint(queued: &Queued) -> Fingerprint {
    Fingerprint::new(None, None, Some(&queued.event.to_le_bytes()))
}

impl Lane {
    fn is_busy(&self) -> bool {
        !(self.queue.is_empty()
            && self.batches.is_empty()
            && self.requests.is_empty()
            && self.answers.is_empty()
            && self.strays.is_empty())
    }

    fn lose_connection(&mut self) {
        self.strays.extend(self.requests.drain(..));
        self.answers.clear();
    }
}
