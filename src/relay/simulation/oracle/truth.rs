use std::collections::{BTreeMap, BTreeSet};

use super::identities::{Answer, Identities};
use crate::connect::record::{Fingerprint, ProducerRecord};
use crate::relay::simulation::kafka::broker::Place;
use crate::relay::simulation::kafka::positions::Kept;
use crate::relay::simulation::postgres::catalog::{CapturedBy, Catalog};
use crate::relay::simulation::rows::changes;
use crate::relay::simulation::rows::table;
use crate::relay::simulation::rows::table::EVENTS_TOPICS;
use crate::wal::Oid;

/// A record that a committed transaction is to become, by its number: the order of the commits, of statements in them, and of the
/// records of an event.
#[derive(Debug, Clone)]
pub(in crate::relay::simulation) struct Event {
    /// The stream begins with it unless the confirmed position lies beyond this.
    pub(in crate::relay::simulation) commit_lsn: u64,
    pub(in crate::relay::simulation) topic: usize,
    pub(in crate::relay::simulation) key: u8,
    /// The record of the same event that this tombstone follows.
    pub(in crate::relay::simulation) of: Option<usize>,
    /// True if it is not needed any more: its history is gone, or it was reported as missing in the stream.
    pub(in crate::relay::simulation) excused: bool,
    /// The row that it is, unless it is a message.
    pub(in crate::relay::simulation) row: Option<Row>,
    pub(in crate::relay::simulation) written: bool,
}

/// Table of a row when it is written.
#[derive(Debug, Clone, Copy)]
pub(in crate::relay::simulation) struct Row {
    /// The relation that the stream names.
    pub(in crate::relay::simulation) relation: Oid,
    /// The table itself, or the one that it is a partition of.
    pub(in crate::relay::simulation) root: Oid,
    /// The relation is captured by what it is named, or by its columns, at this point.
    pub(in crate::relay::simulation) named: bool,
    /// True if there was no publication.
    pub(in crate::relay::simulation) unpublished: bool,
}

/// Clean end, after which nothing up to `event` is repeated on connections that begin behind it.
#[derive(Debug, Clone)]
struct Clean {
    event: usize,
    /// Processes whose connections have begun since.
    connected: BTreeSet<usize>,
}

/// Committed events, what has become of them, and the oracles over both.
#[derive(Debug, Default)]
pub(in crate::relay::simulation) struct Truth {
    pub(in crate::relay::simulation) events: Vec<Event>,
    /// The greatest event of each partition that has been written.
    firsts: BTreeMap<(usize, i32), usize>,
    /// Partitions whose order the guarantees except: a leader forgot its producers, or a client its sequence.
    excepted: BTreeSet<(usize, i32)>,
    /// Number of events that were found to be written, as far as was confirmed.
    checked: usize,
    /// Last event that each process handed over on its connection. Confirmations of earlier ones may not have
    /// reached the server.
    handed_over: BTreeMap<usize, usize>,
    clean: Option<Clean>,
    /// Events that each process has handed over.
    handed_by: BTreeSet<(usize, usize)>,
    /// Positions in the records of each event.
    pub(in crate::relay::simulation) positions: BTreeMap<usize, Vec<u8>>,
    /// Rows become change events.
    pub(in crate::relay::simulation) changes: bool,
    /// Fingerprint by which the record of each change event is recognised.
    pub(in crate::relay::simulation) fingerprints: BTreeMap<usize, Fingerprint>,
    /// Places that each event was ever sent to.
    pub(in crate::relay::simulation) sent: BTreeSet<(Place, usize)>,
    /// Events that each process has found at the ends of topics, on its connection.
    found: BTreeMap<usize, BTreeSet<usize>>,
    /// Begin of the first stream of each process.
    began: BTreeMap<usize, u64>,
    /// LSN before which everything was acknowledged on an earlier connection of the process.
    passed: BTreeMap<usize, u64>,
    pub(in crate::relay::simulation) identities: Identities,
    /// The position that counts.
    pub(in crate::relay::simulation) position: Option<Kept>,
    /// True if positions are stored, beyond which nothing may be confirmed.
    pub(in crate::relay::simulation) keeps_positions: bool,
    pub(in crate::relay::simulation) repeats: usize,
    /// True if what is written is committed: it must not come twice, and there is no exception to its order.
    pub(in crate::relay::simulation) exactly_once: bool,
    /// Events that may come twice nevertheless: an operator restarted the relays from nothing.
    tolerated: BTreeSet<usize>,
    pub(in crate::relay::simulation) violation: Option<String>,
    /// True if to print what happens, for a seed that is replayed alone.
    pub(in crate::relay::simulation) tells: bool,
}

impl Truth {
    pub(in crate::relay::simulation) fn report(&self, what: impl FnOnce() -> String) {
        if self.tells {
            println!("{}", what());
        }
    }

    pub(in crate::relay::simulation) fn commit(&mut self, event: Event) -> usize {
        self.report(|| {
            format!("event {} commits at {}: {:?}", self.events.len(), event.commit_lsn, event.row)
        });
        self.events.push(event);
        self.events.len() - 1
    }

    /// Checks L4 when a record is handed to the producer. Returns its event.
    pub(in crate::relay::simulation) fn handed_over(
        &mut self,
        process: usize,
        record: &ProducerRecord<'_>,
    ) -> usize {
        let id = record.event_id();
        let number = match self.changes {
            true => changes::number_of(record),
            false => id.and_then(table::number_of).map(|number| number + usize::from(record.value.is_none())),
        };
        let number = number.filter(|number| *number < self.events.len());
        let Some(number) = number else {
            self.violate(format!("L2: a record of no event: {id:?}"));
            return 0;
        };
        let event = &self.events[number];
        let (key, payload) = (table::key(event.key), event.of.is_none().then(|| table::payload(number)));
        let as_expected = match self.changes {
            true => changes::is_of(record, event, number),
            false => {
                record.topic == EVENTS_TOPICS[event.topic]
                    && record.key == Some(key.as_bytes())
                    && record.value == payload.as_deref().map(str::as_bytes)
            }
        };
        if !as_expected {
            let is = format!("{} {:?} {:?}", record.topic, record.key, record.value);
            self.violate(format!("L4: event {number} became {is}"));
        }
        self.report(|| format!("  process {process} hands over event {number}"));
        self.check_identity(process, number, record.position);
        if self.events[number].row.is_some_and(|row| !self.identities.may_be_sent(row)) {
            self.violate(format!("L2: event {number} is a row of a table that nothing captures"));
        }
        self.handed_over.insert(process, number);
        let clean = self.clean.as_ref().filter(|clean| clean.connected.contains(&process));
        if clean.is_some_and(|clean| number <= clean.event) {
            self.violate(format!("L5: event {number} comes again after a clean end"));
        }
        let began = self.began.get(&process).copied().unwrap_or_default();
        let passed = self.passed.get(&process).map_or(began..began, |passed| began..*passed);
        let again = !self.handed_by.insert((process, number)) || !self.may_be_new(number);
        if again && passed.contains(&self.events[number].commit_lsn) {
            self.violate(format!("L5: event {number} comes again after a broken connection"));
        }
        number
    }

    /// Returns whether an event may be sent again: nothing identifies messages that other processes have
    /// sent, and a table may be captured that was not.
    fn may_be_new(&self, number: usize) -> bool {
        self.events[number].row.is_none_or(|row| self.identities.was_left_out(row))
    }

    /// Checks L8: an event's position is always the same, and what was found at the end of its topic is not
    /// repeated, unless something before it was not found.
    fn check_identity(&mut self, process: usize, number: usize, position: Option<&[u8]>) {
        if self.found.get(&process).is_some_and(|found| found.contains(&number)) {
            self.violate(format!("L8: event {number} comes again though it was found"));
        }
        let topic = self.events[number].topic;
        if let Some(found) = self.found.get_mut(&process) {
            found.retain(|later| *later < number || self.events[*later].topic != topic);
        }
        let Some(position) = position else { return };
        let before = self.positions.entry(number).or_insert_with(|| position.to_vec());
        if before != position {
            self.violate(format!("L8: event {number} has another position than before"));
        }
    }

    /// Records that a process has read these events at the end of their topic.
    pub(in crate::relay::simulation) fn found(
        &mut self,
        process: usize,
        events: impl IntoIterator<Item = usize>,
    ) {
        self.found.entry(process).or_default().extend(events);
    }

    /// Returns the fingerprint by which the record of an event is recognised.
    pub(in crate::relay::simulation) fn fingerprint(&self, number: usize) -> Fingerprint {
        if self.changes {
            let known = self.fingerprints.get(&number).copied();
            return known.unwrap_or_else(|| Fingerprint::new(None, None, None));
        }
        let Event { key, of, .. } = self.events[number];
        let (id, key) = (table::id(of.unwrap_or(number)), table::key(key));
        let payload = of.is_none().then(|| table::payload(number));
        Fingerprint::new(Some(key.as_bytes()), payload.as_deref().map(str::as_bytes), Some(id.as_bytes()))
    }

    /// Checks L2 and L3 when a record is in a partition's log.
    pub(in crate::relay::simulation) fn written(&mut self, topic: usize, partition: i32, number: usize) {
        self.report(|| format!("  event {number} is written in {topic}-{partition}"));
        let event = &mut self.events[number];
        if std::mem::replace(&mut event.written, true) {
            self.repeats += 1;
            if self.exactly_once && !self.tolerated.remove(&number) {
                self.violate(format!("L5: event {number} is committed twice"));
            }
            return;
        }
        if event.topic != topic {
            self.violate(format!("L4: event {number} is in topic {topic}"));
        }
        if self.events[number].excused {
            return;
        }
        let excepted = !self.exactly_once && self.excepted.contains(&(topic, partition))
            || self.events[number].row.is_some_and(|row| self.identities.was_left_out(row));
        let first = self.firsts.entry((topic, partition)).or_default();
        let before = *first;
        *first = number.max(before);
        if number < before && !excepted {
            self.violate(format!(
                "L3: event {number} is first written behind {before} in {topic}-{partition}"
            ));
        }
    }

    /// Checks L6: everything that committed before `lsn` is in the logs.
    pub(in crate::relay::simulation) fn confirmed(&mut self, lsn: u64) {
        while let Some(event) =
            self.events.get(self.checked).filter(|event| event.excused || event.commit_lsn < lsn)
        {
            if !event.written && !event.excused {
                let (number, at, told) = (self.checked, event.commit_lsn, self.identities.verdict(event.row));
                match told {
                    Answer::Owed => {
                        self.violate(format!(
                            "L6: {lsn} is confirmed, event {number} at {at} is not written"
                        ));
                    }
                    Answer::Unseen => {
                        self.violate(format!("L9: event {number} at {at} is passed by unseen"));
                    }
                    Answer::NotCaptured => self.events[number].excused = true,
                }
            }
            self.checked += 1;
        }
    }

    pub(in crate::relay::simulation) fn connected(&mut self, process: usize, from: u64) {
        self.identities.streams(process);
        self.report(|| format!("  process {process} streams from {from}"));
        self.began.entry(process).or_insert(from);
        if let Some(clean) = &mut self.clean {
            clean.connected.insert(process);
        }
        self.handed_over.remove(&process);
        self.found.remove(&process);
    }

    /// Records that the slot is beyond what the process has acknowledged: another has sent what lies between.
    pub(in crate::relay::simulation) fn passed_on(&mut self, process: usize, from: u64) {
        self.began.insert(process, from);
    }

    /// Records that a connection has broken, and everything that was handed over on it is acknowledged.
    pub(in crate::relay::simulation) fn settled(&mut self, process: usize) {
        if let Some(event) = self.handed_over.get(&process).filter(|_| !self.exactly_once) {
            self.passed.insert(process, self.events[*event].commit_lsn);
        }
    }

    /// Records that a connection has ended cleanly.
    pub(in crate::relay::simulation) fn stopped(&mut self, process: usize) {
        self.report(|| format!("  process {process} has drained"));
        if let Some(event) = self.handed_over.get(&process).copied() {
            self.clean = Some(Clean { event, connected: BTreeSet::new() });
        }
    }

    /// Forgets what is written.
    pub(in crate::relay::simulation) fn start_over(&mut self) {
        self.clean = None;
        let events = self.events.iter().enumerate();
        self.tolerated = events.filter(|(_, event)| event.written).map(|(number, _)| number).collect();
    }

    /// Records that the server is not where it was: repeats are allowed.
    pub(in crate::relay::simulation) fn regressed(&mut self) {
        self.clean = None;
    }

    /// Excuses events of the history behind `lsn`, which is gone.
    pub(in crate::relay::simulation) fn forget_behind(&mut self, lsn: u64) {
        self.passed.clear();
        for event in self.events.iter_mut().rev().take_while(|event| event.commit_lsn >= lsn || event.excused)
        {
            event.excused = true;
        }
    }

    /// Excuses rows that were reported to the operator as missing in the stream.
    pub(in crate::relay::simulation) fn report_unpublished(&mut self) {
        let unpublished = |event: &&mut Event| event.row.is_some_and(|row| row.unpublished);
        self.events.iter_mut().filter(unpublished).for_each(|event| event.excused = true);
    }

    /// Records that a position is in its topic.
    pub(in crate::relay::simulation) fn kept(&mut self, kept: Kept) {
        self.report(|| format!("  {kept:?} is in its topic"));
        if self.position.as_ref().is_none_or(|before| kept.counts_after(before)) {
            self.position = Some(kept);
        }
    }

    /// Checks L11: what is confirmed is stored.
    pub(in crate::relay::simulation) fn is_to_be_confirmed(&mut self, lsn: u64) {
        let kept = self.position.as_ref().map(|kept| kept.lsn);
        if self.keeps_positions && kept.is_none_or(|kept| kept < lsn) {
            self.violate(format!("L11: {lsn} is confirmed, and the position is {kept:?}"));
        }
    }

    /// Excuses rows before `lsn`, which the operator sends from the table.
    pub(in crate::relay::simulation) fn give_up_before(&mut self, lsn: u64) {
        let skipped = |event: &&mut Event| !event.written && event.commit_lsn < lsn;
        self.events.iter_mut().filter(skipped).for_each(|event| event.excused = true);
    }

    /// Excuses all rows, which the operator has sent.
    pub(in crate::relay::simulation) fn excuse_all(&mut self) {
        self.events.iter_mut().filter(|event| !event.written).for_each(|event| event.excused = true);
    }

    /// Records that the catalog was altered.
    pub(in crate::relay::simulation) fn altered(&mut self, catalog: &Catalog, by: CapturedBy) {
        self.identities.altered(catalog, by);
    }

    pub(in crate::relay::simulation) fn except(&mut self, topic: usize, partition: i32) {
        self.excepted.insert((topic, partition));
    }

    /// Checks L1, at the end: returns the first event that is missing.
    pub(in crate::relay::simulation) fn missing(&self) -> Option<usize> {
        self.events.iter().position(|event| !event.written && !event.excused)
    }

    pub(in crate::relay::simulation) fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }
}
