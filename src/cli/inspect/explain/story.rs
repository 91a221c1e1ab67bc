//! Conclusions about an event.

use serde::Serialize;
use serde_json::json;

use super::missing_facts::missing_facts;
use super::records::{FoundRecord, Records};
use super::rows::{Database, FoundRow};
use super::wanted::Wanted;
use crate::postgres::SlotFacts;

/// Everything that was found out.
#[derive(Debug)]
pub(super) struct Story {
    pub(super) wanted: Wanted,
    pub(super) rows: Vec<FoundRow>,
    pub(super) unread: Vec<String>,
    pub(super) keyless: Vec<String>,
    pub(super) slot_name: String,
    pub(super) slot: Option<SlotFacts>,
    pub(super) next_start: Option<(String, Option<String>)>,
    pub(super) topics: Vec<String>,
    pub(super) records: Records,
    pub(super) groups: Vec<Passed>,
}

/// Progress of a consumer group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Passed {
    pub(super) group: String,
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) offset: i64,
    /// The next offset that it reads; `None` when it has committed none.
    pub(super) committed: Option<i64>,
    pub(super) passed: bool,
}

/// Standing of the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Standing {
    /// In Kafka.
    Arrived,
    /// Only in the dead-letter topic.
    DeadLetter,
    /// No slot: it will not be sent.
    NoSlot,
    /// The slot is of no use any more.
    SlotLost,
    /// The slot is not read.
    NobodyReads,
    /// The slot has not reached the end of the WAL: the event may still be sent.
    OnTheWay,
    /// The slot is past it, and there is no record.
    Missing,
    /// No record was found, but some could not be read.
    Unread,
    /// No record has this position, but some have no position at all.
    Unplaced,
    /// Neither a row nor a record.
    Unknown,
}

impl Story {
    pub(super) fn new(
        wanted: Wanted,
        database: Database,
        topics: Vec<String>,
        records: Records,
        groups: Vec<Passed>,
    ) -> Self {
        let Database { rows, slot, slot_name, next_start, unread, keyless } = database;
        Self { wanted, rows, unread, keyless, slot_name, slot, next_start, topics, records, groups }
    }

    pub(super) fn has_arrived(&self) -> bool {
        self.standing() == Standing::Arrived
    }

    pub(super) fn standing(&self) -> Standing {
        match self.standing_as_read() {
            Standing::Missing | Standing::Unknown | Standing::NoSlot | Standing::SlotLost
                if self.records.unread > 0 =>
            {
                Standing::Unread
            }
            Standing::Missing | Standing::NoSlot | Standing::SlotLost
                if self.records.without_position > 0 =>
            {
                Standing::Unplaced
            }
            standing => standing,
        }
    }

    /// Returns the standing, with unreadable records treated as other events.
    fn standing_as_read(&self) -> Standing {
        if self.records.sent.iter().any(FoundRecord::may_be_it) {
            return Standing::Arrived;
        }
        if self.records.dead_letters.iter().any(FoundRecord::may_be_it) {
            return Standing::DeadLetter;
        }
        if self.rows.is_empty() && self.wanted.lsn.is_none() {
            return Standing::Unknown;
        }
        let Some(slot) = &self.slot else { return Standing::NoSlot };
        if slot.invalidation().is_some() {
            return Standing::SlotLost;
        }
        // A row does not contain its position in the WAL; the requested commit does.
        let target = self.wanted.lsn.unwrap_or(slot.server_lsn);
        match (slot.confirmed_flush_lsn.is_some_and(|confirmed| confirmed >= target), slot.active_pid) {
            (true, _) => Standing::Missing,
            (false, None) => Standing::NobodyReads,
            (false, Some(_)) => Standing::OnTheWay,
        }
    }

    /// Returns whether no record comes from the transaction that wrote this version of a row, as far as
    /// records name theirs.
    pub(super) fn is_behind(&self, row: &FoundRow) -> bool {
        let Some(topic) = &row.topic else { return false };
        let of_it: Vec<_> = self.records.sent.iter().filter(|record| record.topic == *topic).collect();
        let mut changes = of_it.iter().filter(|record| record.operation != Some("tombstone"));
        let is_told = |record: &&FoundRecord| {
            !record.is_of_its_transaction()
                || record.transaction.is_some_and(|told| told.to_string() == row.transaction)
        };
        !self.records.more && changes.clone().next().is_some() && !changes.any(is_told)
    }

    /// Returns the last record of a key whose row was deleted, if it is no delete.
    pub(super) fn not_deleted(&self) -> Option<&FoundRecord> {
        let is_known = self.rows.is_empty() && self.unread.is_empty() && !self.records.more;
        let last = |record: &&FoundRecord| {
            let of_its_partition = self
                .records
                .sent
                .iter()
                .filter(|other| (&other.topic, other.partition) == (&record.topic, record.partition));
            of_its_partition.map(|other| other.offset).max() == Some(record.offset)
        };
        self.records.sent.iter().filter(|_| is_known).filter(last).find(|record| record.leaves_a_row())
    }

    /// Returns whether a record is a repeat of an event, as far as ids show that.
    pub(super) fn is_repeat(&self, record: &FoundRecord) -> bool {
        let same = |other: &&FoundRecord| {
            other.event_id.is_some()
                && other.event_id == record.event_id
                && other.is_of_row == record.is_of_row
        };
        self.records.sent.iter().find(same).is_some_and(|first| {
            (&first.topic, first.partition, first.offset) != (&record.topic, record.partition, record.offset)
        })
    }

    pub(super) fn json(&self) -> String {
        let slot = self.slot.as_ref().map(|slot| {
            json!({
                "confirmed": slot.confirmed_flush_lsn.map(|lsn| lsn.to_string()),
                "server": slot.server_lsn.to_string(), "active_pid": slot.active_pid,
            })
        });
        let object = json!({
            "wanted": self.wanted.text, "standing": self.standing(), "rows": self.rows, "slot": slot,
            "topics": self.topics, "records": self.records.sent, "dead_letters": self.records.dead_letters,
            "more": self.records.more, "not_read": self.records.unread, "not_read_because": self.records.unread_because,
            "without_position": self.records.without_position,
            "next_start": self.next_start.as_ref().map(|(summary, _)| summary),
            "groups": self.groups, "unread": self.unread, "keyless": self.keyless, "not_told": missing_facts(self),
        });
        format!("{object}\n")
    }
}
