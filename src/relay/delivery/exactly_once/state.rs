//! The record that each Kafka transaction writes about its end, and its JSON form.

use serde::{Deserialize, Serialize};

use crate::signal::StoredCheckpoint;
use crate::transaction::EventPosition;
use crate::wal::{Lsn, Oid, PgTimestamp, SystemId, TimelineId, Xid};

/// Version of the form below. An unknown one is refused: its meaning must not be guessed.
const VERSION: u32 = 1;

/// Version with a place between the records of one event. An outboxd that has one record an event would skip
/// the others.
const VERSION_WITH_PART: u32 = 2;

/// Version with a place inside a transaction that is given by an LSN. An outboxd that counts events would
/// misread it.
const VERSION_WITH_LSN: u32 = 3;

/// Contents of the record of a Kafka transaction: everything up to a place is in Kafka.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) source: Source,
    pub(crate) place: Place,
    /// Topics of the transaction: Kafka may have failed to commit it there.
    pub(crate) topics: Vec<String>,
    /// Part of the history that identifies it. States of outboxd before 0.4 have none.
    pub(crate) seen: Option<Seen>,
    /// Progress of incremental snapshots, if signals are enabled.
    pub(crate) snapshots: Option<StoredCheckpoint>,
}

/// Part of the source's history that was seen up to a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Latest commit time of its transactions, by the server's clock.
    pub(crate) latest: PgTimestamp,
    /// Id and commit time of the transaction at the place; a logical message outside a transaction has neither.
    pub(crate) transaction: Option<(Xid, PgTimestamp)>,
}

/// Source of the rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Source {
    pub(crate) system_id: SystemId,
    pub(crate) timeline: TimelineId,
    pub(crate) database: String,
    /// Missing in states of an earlier outboxd.
    pub(crate) database_oid: Option<Oid>,
    pub(crate) slot: String,
    /// Options of the stream: with other options transactions may be missing.
    pub(crate) stream: String,
}

/// End of a Kafka transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The last record.
    pub(crate) event: EventPosition,
    /// Further records of the same event are not in Kafka.
    pub(crate) more: bool,
    /// Number of the last event, in states of an outboxd that numbered the events of a transaction and did
    /// not store the LSN.
    pub(crate) counted: Option<u64>,
    /// The end of its source transaction, when that is in Kafka to its end.
    pub(crate) end_lsn: Option<Lsn>,
}

/// A record that is none of ours.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Error: not JSON, or a member is missing or of another type.
    #[error("it is not what outboxd writes")]
    Json(#[source] serde_json::Error),
    /// Another form.
    #[error("its version is {0}, and this outboxd reads {VERSION} to {VERSION_WITH_LSN} only")]
    Version(u32),
    /// A form with `part`, without it.
    #[error("it does not have the part of its event")]
    NoPart,
    /// A form with `lsn`, without it.
    #[error("it does not have the LSN of its event")]
    NoLsn,
}

/// The form of the record. Members that are not known are ignored.
#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    system_id: String,
    timeline: u32,
    database: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    database_oid: Option<u32>,
    slot: String,
    stream: String,
    commit_lsn: Lsn,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lsn: Option<Lsn>,
    ordinal: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    part: Option<u32>,
    /// Always written, so that a missing member is not mistaken for a transaction that is not at its end.
    #[serde(deserialize_with = "Option::deserialize")]
    end_lsn: Option<Lsn>,
    #[serde(default)]
    topics: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latest_commit_us: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    xid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    commit_us: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    snapshots: Option<StoredCheckpoint>,
}

/// The version, which is read before anything else.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl State {
    /// Returns the JSON that is written.
    pub(crate) fn to_json(&self) -> Result<String, StateError> {
        serde_json::to_string(&Written::from(self)).map_err(StateError::Json)
    }

    /// Reads what an earlier start wrote.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, StateError> {
        let Versioned { version } = serde_json::from_slice(bytes).map_err(StateError::Json)?;
        if !(VERSION..=VERSION_WITH_LSN).contains(&version) {
            return Err(StateError::Version(version));
        }
        let written: Written = serde_json::from_slice(bytes).map_err(StateError::Json)?;
        Ok(Self {
            seen: written.seen(),
            place: written.place(version)?,
            source: Source {
                system_id: SystemId(written.system_id),
                timeline: TimelineId(written.timeline),
                database: written.database,
                database_oid: written.database_oid.map(Oid),
                slot: written.slot,
                stream: written.stream,
            },
            topics: written.topics,
            snapshots: written.snapshots,
        })
    }
}

impl From<&State> for Written {
    fn from(State { source, place, topics, seen, snapshots }: &State) -> Self {
        let transaction = seen.and_then(|seen| seen.transaction);
        Self {
            version: place.version(),
            system_id: source.system_id.0.clone(),
            timeline: source.timeline.0,
            database: source.database.clone(),
            database_oid: source.database_oid.map(|oid| oid.0),
            slot: source.slot.clone(),
            stream: source.stream.clone(),
            commit_lsn: place.event.commit_lsn,
            lsn: place.counted.is_none().then_some(place.event.lsn),
            ordinal: place.counted.unwrap_or(place.event.ordinal),
            part: place.more.then_some(place.event.part),
            end_lsn: place.end_lsn,
            topics: topics.clone(),
            latest_commit_us: seen.map(|seen| seen.latest.unix_us()),
            xid: transaction.map(|(xid, _)| xid.0),
            commit_us: transaction.map(|(_, commit_time)| commit_time.unix_us()),
            snapshots: snapshots.clone(),
        }
    }
}

impl Written {
    fn place(&self, version: u32) -> Result<Place, StateError> {
        let &Self { commit_lsn, lsn, ordinal, part, end_lsn, .. } = self;
        let part = match version {
            VERSION => None,
            VERSION_WITH_PART => Some(part.ok_or(StateError::NoPart)?),
            _ => part,
        };
        if version == VERSION_WITH_LSN && lsn.is_none() {
            return Err(StateError::NoLsn);
        }
        let event = match lsn {
            Some(lsn) => EventPosition::new(commit_lsn, lsn, ordinal),
            None => EventPosition::begin(commit_lsn),
        };
        let event = EventPosition { part: part.unwrap_or_default(), ..event };
        Ok(Place { event, more: part.is_some(), counted: lsn.is_none().then_some(ordinal), end_lsn })
    }

    fn seen(&self) -> Option<Seen> {
        let transaction = self.xid.zip(self.commit_us);
        self.latest_commit_us.map(|latest| Seen {
            latest: PgTimestamp::from_unix_us(latest),
            transaction: transaction.map(|(xid, us)| (Xid(xid), PgTimestamp::from_unix_us(us))),
        })
    }
}

impl Place {
    /// Makes a place inside a source transaction.
    pub(crate) const fn inside(event: EventPosition, more: bool) -> Self {
        Self { event, more, counted: None, end_lsn: None }
    }

    /// Returns the lowest version that can express it: an outboxd that counts events can read everything but
    /// a place inside a transaction.
    const fn version(&self) -> u32 {
        match (self.counted, self.end_lsn, self.more) {
            (None, None, _) => VERSION_WITH_LSN,
            (_, _, true) => VERSION_WITH_PART,
            (_, _, false) => VERSION,
        }
    }

    /// Returns the last position that is in Kafka: when the event is complete, whatever its parts are.
    pub(crate) const fn last(&self) -> EventPosition {
        if self.more { self.event } else { self.event.end_of_event() }
    }

    /// Returns the LSN before which everything may be in Kafka; nothing from there on is known to be.
    pub(crate) fn furthest(&self) -> Lsn {
        self.end_lsn.unwrap_or(self.event.commit_lsn)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WRITTEN: &str = r#"{"version":1,"system_id":"7300000000000000001","timeline":2,"database":"shop","slot":"outbox","stream":"s","commit_lsn":"0/16B3748","ordinal":41,"end_lsn":null,"topics":["outbox.event.order","b"]}"#;

    /// Values as builds of outboxd have written them: nothing of them is lost.
    #[test]
    fn recorded_states_are_read_whole() {
        let recorded = include_str!("../../../../tests/cases/stored.tsv").lines();
        let states: Vec<_> = recorded.filter(|line| line.starts_with("state\t")).collect();
        assert!(states.len() > 1);
        for line in states {
            let value = line.rsplit('\t').next().unwrap();
            assert_eq!(State::parse(value.as_bytes()).unwrap().to_json().unwrap(), value);
        }
    }

    #[test]
    fn the_form_is_fixed() {
        let state = State::parse(WRITTEN.as_bytes()).unwrap();
        let commit_lsn = Lsn::new(0x16B_3748);
        assert_eq!((state.place.event, state.place.counted), (EventPosition::begin(commit_lsn), Some(41)));
        assert!(!state.place.more);
        assert_eq!(state.topics, ["outbox.event.order", "b"]);
        assert_eq!(state.to_json().unwrap(), WRITTEN);
        assert_eq!(state.seen, None);
        let written = WRITTEN.replace(r#""version":1"#, r#""version":2"#);
        let written = written.replace(r#""ordinal":41"#, r#""ordinal":41,"part":1"#);
        let state = State::parse(written.as_bytes()).unwrap();
        assert_eq!(
            (state.place.event, state.place.more),
            (EventPosition::begin(commit_lsn).next_part(), true)
        );
        assert_eq!(state.to_json().unwrap(), written);
        let with_lsn = |version, more: &str| {
            let written = WRITTEN.replace(r#""version":1"#, version);
            written.replace(r#""ordinal":41"#, &format!(r#""lsn":"0/16B3000","ordinal":1{more}"#))
        };
        let event = EventPosition::new(commit_lsn, Lsn::new(0x16B_3000), 1);
        for (more, event) in [("", event), (r#","part":1"#, event.next_part())] {
            let written = with_lsn(r#""version":3"#, more);
            let state = State::parse(written.as_bytes()).unwrap();
            assert_eq!((state.place.event, state.place.counted), (event, None));
            assert_eq!(state.to_json().unwrap(), written);
        }
        // Of a whole transaction an earlier outboxd reads what it needs.
        let whole = with_lsn(r#""version":1"#, "").replace(r#""end_lsn":null"#, r#""end_lsn":"0/16B3770""#);
        assert_eq!(State::parse(whole.as_bytes()).unwrap().to_json().unwrap(), whole);
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        let cases = [
            ("", "", "invalid length 0"),
            (r#""version":1"#, r#""version":0"#, "its version is 0"),
            (r#""version":1"#, r#""version":4"#, "its version is 4"),
            (r#""version":1"#, r#""version":3"#, "the LSN of its event"),
            (r#""version":1"#, r#""version":2"#, "the part of its event"),
            (r#""version":1"#, r#""version":2,"part":4294967296"#, "4294967296"),
            (r#""version":1,"#, "", "missing field `version`"),
            (r#""ordinal":41"#, r#""ordinal":-1"#, "-1"),
            (r#""timeline":2"#, r#""timeline":4294967296"#, "4294967296"),
            ("0/16B3748", "16B3748", "is not an LSN"),
            (r#""end_lsn":null"#, r#""end_lsn":7"#, "integer `7`"),
            (r#""end_lsn":null,"#, "", "missing field `end_lsn`"),
            (r#""slot":"outbox""#, r#""slot":null"#, "null"),
            (r#"["outbox.event.order","b"]"#, "null", "null"),
            (r#""b"]"#, "7]", "integer `7`"),
            (r#""b"]"#, r#""b"],"latest_commit_us":"7""#, "string \"7\""),
            (r#""b"]"#, r#""b"],"latest_commit_us":7,"xid":-1"#, "-1"),
        ];
        for (from, to, expected) in cases {
            let text = if from.is_empty() { "[]".to_owned() } else { WRITTEN.replace(from, to) };
            let said = crate::error::chain(&State::parse(text.as_bytes()).unwrap_err());
            assert!(said.contains(expected), "{text}: {said}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            names in prop::collection::vec(".{0,12}", 4), timeline: u32, oid: Option<u32>, commit: u64, at: u64, ordinal: u64, part: Option<u32>, end: Option<u64>,
            topics in prop::collection::vec(".{0,12}", 0..4), seen: Option<(i32, Option<(u32, i32)>)>, heeded: Option<u64>,
        ) {
            let [system_id, database, slot, stream] = names.try_into().unwrap();
            let source = Source {
                system_id: SystemId(system_id), timeline: TimelineId(timeline), database, database_oid: oid.map(Oid), slot, stream,
            };
            let event = EventPosition::new(Lsn::new(commit), Lsn::new(at), ordinal);
            let event = part.map_or(event, |part| EventPosition { part, ..event });
            let time = |time: i32| PgTimestamp(i64::from(time));
            let seen = seen.map(|(latest, transaction)| Seen {
                latest: time(latest), transaction: transaction.map(|(xid, at)| (Xid(xid), time(at))),
            });
            let snapshots = heeded.map(|lsn| StoredCheckpoint { heeded: Lsn::new(lsn), ..StoredCheckpoint::default() });
            let state = State { source, place: Place { event, more: part.is_some(), counted: None, end_lsn: end.map(Lsn::new) }, topics, seen, snapshots };
            prop_assert_eq!(State::parse(state.to_json().unwrap().as_bytes()).unwrap(), state);
        }

        #[test]
        fn nothing_makes_it_panic(bytes: Vec<u8>) {
            drop(State::parse(&bytes));
        }
    }
}
