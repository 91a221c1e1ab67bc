//! The record of a position in its topic: its contents, and its JSON form.

use serde::{Deserialize, Serialize};

use super::unfinished::Unfinished;
use crate::postgres;
use crate::relay::capture::captured::CapturedTable;
use crate::relay::origin::Origin;
use crate::signal::StoredCheckpoint;
use crate::wal::{Lsn, Oid, PgTimestamp, SystemId, TimelineId};

/// Version of the form below. An unknown one is refused: its meaning must not be guessed.
const VERSION: u32 = 1;

/// Most bytes that are stored of an unfinished snapshot. Kafka accepts records of about a megabyte, and
/// captured tables need some.
const UNFINISHED_BYTES_MAX: usize = 256 << 10;

/// Record of a relay in the topic. Unknown members are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::relay) struct Position {
    version: u32,
    /// Grows with each session. What a relay wrote that had the slot before, and that Kafka got late, counts for nothing.
    pub(in crate::relay) epoch: u64,
    pub(in crate::relay) phase: Phase,
    system_id: String,
    timeline: u32,
    pub(in crate::relay) database: String,
    /// Object id of the database: one that is recreated under its name has another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    database_oid: Option<u32>,
    pub(in crate::relay) slot: String,
    /// The slot was never confirmed beyond this by a relay that keeps its position.
    pub(in crate::relay) lsn: Lsn,
    /// Commit time of the last transaction with records before it, in microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    committed_at_us: Option<i64>,
    /// The last values of `outboxd.position.accept` that starts have gone on with. They are not believed again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::relay) accepted: Vec<Lsn>,
    /// The captured tables and partitions, so that a start knows them again whatever they are named by then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::relay) tables: Vec<CapturedTable>,
    /// Progress of incremental snapshots, if signals are enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    snapshots: Option<StoredCheckpoint>,
    /// Sent part of the snapshot that comes before the slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unfinished: Option<Unfinished>,
    /// True if its writer has ended, with everything acknowledged that was ever sent, and its source offset
    /// stored if it stores one: nothing was sent behind that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::relay) ended: bool,
    /// Reason for which its writer ended with rows that are not in the stream, until the operator has acted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::relay) stopped: Option<Stopped>,
}

/// Problem that requires operator action before the relay continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::relay) struct Stopped {
    pub(in crate::relay) problem: String,
    /// Fix, stored under its first name: earlier versions read it too.
    #[serde(rename = "cure")]
    pub(in crate::relay) fix: String,
}

/// Activity of the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// Sending the snapshot that comes before its slot, or before the stream of an existing slot.
    Snapshot,
    /// Streaming from its slot.
    Streaming,
    /// Stopped, with its slot dropped because of `slot.drop.on.stop`.
    Dropped,
}

/// A record that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Error: not JSON, or a member is missing or of another type.
    #[error("it is not what outboxd writes")]
    Json(#[source] serde_json::Error),
    /// A later form.
    #[error("its version is {0}, and this outboxd reads {VERSION} only")]
    Version(u32),
}

/// The version, which is read before anything else.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl Stopped {
    /// Returns the error that refuses each start until then; `acceptable` is the value of
    /// `outboxd.position.accept` with which one continues.
    /// `hint` comes first: why the last start was refused although it was meant to send the rows.
    pub(in crate::relay) fn error(&self, acceptable: Option<Lsn>, hint: Option<&str>) -> postgres::Error {
        let without = acceptable
            .map(|lsn| {
                format!("; to continue without them, start once with -X outboxd.position.accept={lsn}")
            })
            .unwrap_or_default();
        postgres::Error::Unpublished {
            problem: format!("the last run ended because {}", self.problem),
            fix: match hint {
                Some(hint) => {
                    format!("the snapshot leaves rows out: {hint} -X snapshot.mode=always{without}")
                }
                None => format!("{}{without}", self.fix),
            },
        }
    }
}

impl Position {
    /// Makes the position of a slot that is streamed from.
    pub(in crate::relay) fn at(lsn: Lsn, origin: &Origin, database: &str, oid: Oid, slot: &str) -> Self {
        Self {
            version: VERSION,
            epoch: 0,
            phase: Phase::Streaming,
            system_id: origin.system_id.0.clone(),
            timeline: origin.timeline.0,
            database: database.to_owned(),
            database_oid: Some(oid.0),
            slot: slot.to_owned(),
            lsn,
            committed_at_us: None,
            accepted: Vec::new(),
            tables: Vec::new(),
            snapshots: None,
            unfinished: None,
            ended: false,
            stopped: None,
        }
    }

    /// Returns it in the snapshot that comes before the stream of a slot, or before the slot.
    pub(in crate::relay) fn in_snapshot(self) -> Self {
        Self { phase: Phase::Snapshot, lsn: Lsn::ZERO, ..self }
    }

    /// Returns it once that snapshot is sent, where the stream begins.
    pub(in crate::relay) fn after_snapshot(self, lsn: Lsn, tables: Vec<CapturedTable>) -> Self {
        Self { phase: Phase::Streaming, lsn, tables, unfinished: None, ..self }
    }

    /// Returns it for a process that ends with rows that are not in the stream.
    pub(in crate::relay) fn with_stop(self, problem: String, fix: String) -> Self {
        Self { stopped: Some(Stopped { problem, fix }), ..self }
    }

    /// Returns it once the rows of the tables are sent, so that none is missing any more.
    pub(in crate::relay) fn settled(self, tables: Vec<CapturedTable>) -> Self {
        Self { stopped: None, tables, ..self }
    }

    /// Returns it as given up: a slot will be created that is not compared with it. It has no LSN of the old
    /// one.
    pub(in crate::relay) fn given_up(self) -> Self {
        Self { phase: Phase::Dropped, lsn: Lsn::ZERO, ended: false, stopped: None, ..self }
    }

    /// Returns it for a process that has ended, or that begins.
    pub(in crate::relay) fn with_end(self, ended: bool) -> Self {
        Self { ended, ..self }
    }

    /// Returns whether a slot had to be created because the user had accepted that there was none.
    pub(super) fn is_given_up(&self) -> bool {
        self.phase == Phase::Dropped && self.lsn == Lsn::ZERO && !self.accepted.is_empty()
    }

    /// Returns the value of `outboxd.position.accept` that restarts: the slot's position, or else the
    /// position that is given up. Each value counts once: one that was left in the configuration must not
    /// give up the slot that it was meant for.
    pub(in crate::relay) fn acceptable(&self, slot: Option<Lsn>) -> Option<Lsn> {
        acceptable(self.lsn, &self.accepted, slot)
    }

    /// Returns the history that its LSN belongs to.
    pub(in crate::relay) fn origin(&self) -> Origin {
        Origin { system_id: SystemId(self.system_id.clone()), timeline: TimelineId(self.timeline) }
    }

    /// Returns its database. Positions of an earlier outboxd do not have it.
    pub(in crate::relay) fn database_oid(&self) -> Option<Oid> {
        self.database_oid.map(Oid)
    }

    /// Returns whether its database is gone, and another has its name.
    pub(in crate::relay) fn is_of_dropped(&self, database: Oid) -> bool {
        is_of_dropped(self.database_oid(), database)
    }

    /// Returns the commit time of the last transaction before it, as far as that is known.
    pub(in crate::relay) fn committed_at(&self) -> Option<PgTimestamp> {
        self.committed_at_us.map(PgTimestamp::from_unix_us)
    }

    /// Sets the commit time of a later transaction, when there was one.
    pub(in crate::relay) fn committed(&mut self, at: Option<PgTimestamp>) {
        self.committed_at_us = at.map(PgTimestamp::unix_us).or(self.committed_at_us);
    }

    /// Returns the progress of incremental snapshots, if it is the position of a slot that is streamed from.
    pub(in crate::relay) fn snapshots(&self) -> Option<&StoredCheckpoint> {
        self.snapshots.as_ref().filter(|_| self.phase == Phase::Streaming)
    }

    /// Sets the progress of incremental snapshots. Returns false when that has more bytes than a record
    /// should have: the position omits it.
    pub(in crate::relay) fn keep_snapshots(&mut self, snapshots: Option<StoredCheckpoint>) -> bool {
        let is_there = snapshots.is_some();
        self.snapshots = snapshots.filter(StoredCheckpoint::fits);
        self.snapshots.is_some() == is_there
    }

    /// Returns the sent part of an unfinished snapshot.
    pub(in crate::relay) fn unfinished(&self) -> Option<&Unfinished> {
        self.unfinished.as_ref().filter(|_| self.phase == Phase::Snapshot)
    }

    /// Sets the sent part of a snapshot. Returns false when that has more bytes than a record should have.
    pub(in crate::relay) fn keep_unfinished(&mut self, unfinished: Unfinished) -> bool {
        let has_room = serde_json::to_vec(&unfinished).is_ok_and(|bytes| bytes.len() <= UNFINISHED_BYTES_MAX);
        self.unfinished = Some(unfinished).filter(|_| has_room);
        has_room
    }

    /// Returns the JSON that is written.
    pub(in crate::relay) fn to_json(&self) -> Result<Vec<u8>, RecordError> {
        serde_json::to_vec(self).map_err(RecordError::Json)
    }

    /// Reads what a relay wrote.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        let Versioned { version } = serde_json::from_slice(bytes).map_err(RecordError::Json)?;
        if version != VERSION {
            return Err(RecordError::Version(version));
        }
        serde_json::from_slice(bytes).map_err(RecordError::Json)
    }

    /// Returns the position that counts of the values of one key, oldest first. The topic may have a late one
    /// of an earlier session behind it.
    pub(in crate::relay) fn newest(values: &[Option<Vec<u8>>]) -> Result<Option<Self>, RecordError> {
        let since_removed = values.rsplit(Option::is_none).next().unwrap_or_default();
        let positions = since_removed.iter().flatten().map(|bytes| Self::parse(bytes));
        let positions = positions.collect::<Result<Vec<_>, _>>()?;
        Ok(positions.into_iter().max_by_key(|position| (position.epoch, position.lsn)))
    }
}

/// Does the same as [`Position::acceptable`] for a position of which only this is known.
pub(in crate::relay) fn acceptable(lsn: Lsn, accepted: &[Lsn], slot: Option<Lsn>) -> Option<Lsn> {
    [slot, Some(lsn)].into_iter().flatten().find(|value| !accepted.contains(value))
}

/// Returns whether a stored position belongs to another database than the one that has its name now.
pub(in crate::relay) fn is_of_dropped(kept: Option<Oid>, now: Oid) -> bool {
    kept.is_some_and(|kept| kept != now)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WRITTEN: &str = r#"{"version":1,"epoch":7,"phase":"streaming","system_id":"7300000000000000001","timeline":2,"database":"shop","slot":"outbox","lsn":"0/16B3748","committed_at_us":1795219241069695,"tables":[{"oid":16385,"root":16384,"schema":"public","name":"outbox_p1"}]}"#;

    fn at(epoch: u64, lsn: u64) -> Option<Vec<u8>> {
        let origin = Origin { system_id: SystemId("1".to_owned()), timeline: TimelineId(1) };
        let position = Position { epoch, ..Position::at(Lsn::new(lsn), &origin, "shop", Oid(5), "outbox") };
        Some(position.to_json().unwrap())
    }

    #[test]
    fn the_form_is_fixed() {
        let position = Position::parse(WRITTEN.as_bytes()).unwrap();
        assert_eq!((position.phase, position.lsn), (Phase::Streaming, Lsn::new(0x16B_3748)));
        assert_eq!(position.origin().timeline, TimelineId(2));
        assert_eq!(position.to_json().unwrap(), WRITTEN.as_bytes());
        let more = WRITTEN.replace(r#""epoch""#, r#""new":{"a":[1]},"epoch""#);
        assert_eq!(Position::parse(more.as_bytes()).unwrap(), position);
        let fewer = WRITTEN.replace(r#","committed_at_us":1795219241069695"#, "");
        assert_eq!(Position::parse(fewer.as_bytes()).unwrap().committed_at(), None);
    }

    /// Values as builds of outboxd have written them: nothing of them is lost.
    #[test]
    fn recorded_positions_are_read_whole() {
        let recorded = include_str!("../../../../tests/cases/stored.tsv").lines();
        let positions: Vec<_> = recorded.filter(|line| line.starts_with("position\t")).collect();
        assert!(positions.len() > 1);
        for line in positions {
            let value = line.rsplit('\t').next().unwrap();
            let position = Position::parse(value.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(position.to_json().unwrap()).unwrap(), value);
        }
    }

    /// What a newer version has found is repeated after a rollback.
    #[test]
    fn a_suspicion_with_an_unknown_cause_is_kept() {
        let suspected = WRITTEN.replace(
            r#""name":"outbox_p1"}"#,
            r#""name":"outbox_p1","suspicion":{"cause":"of_tomorrow","lsn":"0/10","more":1}}"#,
        );
        let position = Position::parse(suspected.as_bytes()).unwrap();
        let again = Position::parse(&position.to_json().unwrap()).unwrap();
        let warning = again.tables[0].warning().unwrap();
        assert!(
            warning.contains("a newer version") && warning.contains("outboxd.position.accept=0/10"),
            "{warning}"
        );
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        let cases = [
            ("", "", "not what outboxd writes"),
            (r#""version":1"#, r#""version":2,"lsn":7"#, "its version is 2"),
            (r#""version":1,"#, "", "not what outboxd writes"),
            ("streaming", "dreaming", "not what outboxd writes"),
            ("0/16B3748", "16B3748", "not what outboxd writes"),
            (r#""epoch":7"#, r#""epoch":-7"#, "not what outboxd writes"),
        ];
        for (from, to, expected) in cases {
            let text = if from.is_empty() { "[]".to_owned() } else { WRITTEN.replace(from, to) };
            let said = Position::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(said.contains(expected), "{text}: {said}");
        }
    }

    #[test]
    fn a_late_position_of_an_earlier_session_counts_for_nothing() {
        let cases = [
            (vec![], None),
            (vec![at(1, 10), at(1, 20)], Some((1, 20))),
            (vec![at(1, 10), at(2, 5)], Some((2, 5))),
            (vec![at(1, 10), at(2, 15), at(1, 20)], Some((2, 15))),
            (vec![at(9, 10), None], None),
            (vec![at(9, 10), None, at(1, 3)], Some((1, 3))),
        ];
        for (values, expected) in cases {
            let newest = Position::newest(&values).unwrap();
            assert_eq!(newest.map(|position| (position.epoch, position.lsn.get())), expected);
        }
    }

    #[test]
    fn an_end_counts_until_another_client_begins() {
        let with = |epoch, ended| Position { epoch, ended, ..Position::parse(WRITTEN.as_bytes()).unwrap() };
        let ended = with(7, true).to_json().unwrap();
        assert!(String::from_utf8_lossy(&ended).ends_with(r#","ended":true}"#));
        assert!(Position::parse(&ended).unwrap().ended);
        let ends = |positions: &[Position]| {
            let values: Vec<_> = positions.iter().map(|position| position.to_json().ok()).collect();
            Position::newest(&values).unwrap().unwrap().ended
        };
        assert!(ends(&[with(7, false), with(7, true)]));
        assert!(!ends(&[with(7, true), with(7, false)]) && !ends(&[with(7, true), with(8, false)]));
        assert!(!ends(&[with(8, false), with(7, true)]), "that of an earlier session came late");
    }

    #[test]
    fn how_far_snapshots_are_is_kept_up_to_a_limit() {
        let text = |table: &str| {
            format!(
                r#"{{"heeded":"0/10","queue":[{{"table":"{table}"}}],"scanned":0,"chunks":0,"paused":false}}"#
            )
        };
        let with =
            |table: &str| WRITTEN.replace(r#""}]}"#, &format!(r#""}}],"snapshots":{}}}"#, text(table)));
        let small = with("a");
        let mut position = Position::parse(small.as_bytes()).unwrap();
        assert_eq!(position.to_json().unwrap(), small.as_bytes());
        let kept = position.snapshots().cloned();
        assert!(kept.is_some() && position.keep_snapshots(kept) && position.snapshots().is_some());
        let large = serde_json::from_str(&text(&"a".repeat(256 << 10))).unwrap();
        assert!(!position.keep_snapshots(Some(large)) && position.keep_snapshots(None));
        assert_eq!(position.to_json().unwrap(), WRITTEN.as_bytes());
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(bytes: Vec<u8>) {
            drop(Position::parse(&bytes));
        }
    }
}
