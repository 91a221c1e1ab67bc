use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use fastrand::Rng;
use rdkafka::error::RDKafkaErrorCode as Code;

use super::broker::Cluster;
use super::client::{Client, Queued};
use super::coordinator::STATE_PLACE;
use super::positions::PositionTopic;
use crate::ack::Ticket;
use crate::connect::record::{Fingerprint, ProducerRecord};
use crate::kafka::{
    Cause, Delivered, Deliveries, Pace, RecordName, Rejection, ReportPlace, Reports, Transport, partition_of,
};
use crate::relay::simulation::bug::Bug;
use crate::relay::simulation::oracle::truth::Truth;
use crate::relay::simulation::rows::table::EVENTS_TOPICS;
use crate::wal::Lsn;

/// State that all processes share: the brokers, every client that ever existed, and the truth about the
/// events.
#[derive(Debug)]
pub(in crate::relay::simulation) struct Kafka {
    pub(in crate::relay::simulation) cluster: Cluster,
    pub(in crate::relay::simulation) clients: Vec<Client>,
    pub(in crate::relay::simulation) truth: Truth,
    /// Topic of the relays' positions, in runs in which they are stored.
    pub(in crate::relay::simulation) positions: Option<PositionTopic>,
}

impl Kafka {
    /// Makes one step of one of the clients.
    pub(in crate::relay::simulation) fn act(&mut self, rng: &mut Rng, frozen: &[usize], faults: bool) {
        let Self { cluster, clients, truth, .. } = self;
        let number = rng.usize(0..clients.len().max(1));
        // The latest clients have the most to do.
        let number = if rng.bool() { clients.len().saturating_sub(1 + number % 4) } else { number };
        if let Some(client) = clients.get_mut(number).filter(|_| !frozen.contains(&number)) {
            client.act(rng, cluster, truth, faults);
        }
    }

    /// Makes one step of a position in flight.
    pub(in crate::relay::simulation) fn act_on_positions(
        &mut self,
        rng: &mut Rng,
        frozen: &[usize],
        faults: bool,
    ) {
        if let Some(positions) = &mut self.positions {
            positions.act(rng, frozen, faults, &mut self.truth);
        }
    }

    pub(in crate::relay::simulation) fn act_fairly(&mut self, rng: &mut Rng) {
        let Self { cluster, clients, truth, positions } = self;
        clients.iter_mut().for_each(|client| client.act_fairly(rng, cluster, truth));
        if let Some(positions) = positions {
            positions.act_fairly(rng, truth);
        }
    }
}

/// Into the model instead of librdkafka.
pub(in crate::relay::simulation) struct Pipe {
    pub(in crate::relay::simulation) kafka: Rc<RefCell<Kafka>>,
    pub(in crate::relay::simulation) process: usize,
    /// Clients for promptness and for bulk.
    pub(in crate::relay::simulation) clients: [usize; 2],
    pub(in crate::relay::simulation) deliveries: Deliveries,
    pub(in crate::relay::simulation) shadow: Rc<RefCell<Shadow>>,
    pub(in crate::relay::simulation) bug: Option<Bug>,
    /// State that the planted bug writes later.
    pub(in crate::relay::simulation) late_state: RefCell<Option<String>>,
}

impl Transport for Pipe {
    fn send(&self, record: &ProducerRecord<'_>, ticket: Ticket, pace: Pace) -> Result<(), Rejection> {
        if ticket == Ticket::STATE {
            self.send_state(record);
            return Ok(());
        }
        let mut kafka = self.kafka.borrow_mut();
        let Kafka { cluster, clients, truth, .. } = &mut *kafka;
        let event = truth.handed_over(self.process, record);
        truth.fingerprints.insert(event, fingerprint(record, self.bug));
        let topic = EVENTS_TOPICS.iter().position(|topic| *topic == record.topic).unwrap_or_default();
        let client = &mut clients[self.clients[usize::from(pace == Pace::Bulk)]];
        // With transactions a client takes nothing more as soon as a record has failed, also while its report is on its way.
        let code = match (client.is_fatal(), client.is_abortable()) {
            (true, _) => Some(Code::Fatal),
            (false, true) if self.bug == Some(Bug::StateIsCause) => Some(Code::InvalidArgument),
            (false, true) => Some(Code::State),
            (false, false) => None,
        };
        if let Some(code) = code {
            return Err(Rejection {
                ticket,
                topic: record.topic.to_owned(),
                partition: None,
                event_id: None,
                fingerprint: record.fingerprint(),
                cause: Cause::Code(code),
                reason: code.to_string(),
            });
        }
        let count = usize::try_from(cluster.counts[topic]).unwrap();
        let chosen = record.partition.or_else(|| partition_of(record.key?, count));
        self.shadow.borrow_mut().sent(ticket);
        let place = (topic, chosen.unwrap_or_default());
        truth.sent.insert((place, event));
        client.send(place, Queued { ticket, bytes: record.weight(), event });
        Ok(())
    }

    fn take(&self, spare: Vec<Delivered>) -> Reports {
        let reports = self.deliveries.take(spare);
        self.shadow.borrow_mut().delivered(&reports.delivered);
        reports
    }

    fn follows_load(&self) -> bool {
        self.kafka.borrow().cluster.coordinator.is_none()
    }

    fn is_transactional(&self) -> bool {
        self.kafka.borrow().cluster.coordinator.is_some()
    }

    fn commit(&mut self) {
        self.end(true);
    }

    fn abort(&mut self) {
        self.end(false);
    }
}

/// Returns the fingerprint by which a record is recognised at the end of its topic.
fn fingerprint(record: &ProducerRecord<'_>, bug: Option<Bug>) -> Fingerprint {
    match bug {
        Some(Bug::ContentsAreIdentity) => Fingerprint::new(record.key, record.value, None),
        _ => record.fingerprint(),
    }
}

impl Pipe {
    fn send_state(&self, record: &ProducerRecord<'_>) {
        let mut kafka = self.kafka.borrow_mut();
        let Kafka { cluster, clients, .. } = &mut *kafka;
        let Some(coordinator) = &mut cluster.coordinator else { return };
        let value = String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned();
        // The planted bug writes what the last transaction should have had.
        let value = match self.bug {
            Some(Bug::StateBehind) => self.late_state.replace(Some(value)),
            _ => Some(value),
        };
        let event = value.map(|value| coordinator.keep(&value));
        let place = Ticket::STATE;
        match event {
            Some(event) => {
                clients[self.clients[0]]
                    .send(STATE_PLACE, Queued { ticket: place, bytes: record.weight(), event });
            }
            None => self.deliveries.acknowledged(
                place,
                ReportPlace { topic: record.topic, partition: 0, offset: i64::MAX },
                0,
                || RecordName { event_id: None, fingerprint: record.fingerprint() },
            ),
        }
    }

    fn end(&self, commits: bool) {
        if let Some(ender) = &mut self.kafka.borrow_mut().clients[self.clients[0]].ender {
            ender.ask(commits);
        }
    }
}

/// A ledger without its order, for those planted bugs that confirm by it.
#[derive(Debug, Default)]
pub(in crate::relay::simulation) struct Shadow(BTreeMap<Ticket, (usize, Option<Lsn>)>);

impl Shadow {
    fn sent(&mut self, ticket: Ticket) {
        self.0.entry(ticket).or_default().0 += 1;
    }

    fn delivered(&mut self, reports: &[Delivered]) {
        for report in reports {
            if let Some((outstanding, _)) = self.0.get_mut(&report.ticket) {
                *outstanding = outstanding.saturating_sub(report.records);
            }
        }
    }

    pub(in crate::relay::simulation) fn committed(&mut self, end_lsn: Lsn) {
        if let Some(last) = self.0.last_entry() {
            last.into_mut().1.get_or_insert(end_lsn);
        }
    }

    /// Returns the end of the latest transaction that is wholly acknowledged.
    pub(in crate::relay::simulation) fn latest(&self) -> Option<Lsn> {
        let done = self.0.values().filter(|(outstanding, _)| *outstanding == 0);
        done.filter_map(|(_, end)| *end).max()
    }

    /// Returns the end of the first transaction behind the frontier.
    pub(in crate::relay::simulation) fn behind(&self, frontier: Lsn) -> Option<Lsn> {
        self.0.values().filter_map(|(_, end)| *end).find(|end| *end > frontier)
    }
}
