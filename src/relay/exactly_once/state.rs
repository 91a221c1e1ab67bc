use serde_json::{Map, Value};

use crate::transaction::EventPosition;
use crate::wal::{Lsn, PgTimestamp, SystemId, TimelineId, Xid};

/// The version of the form below. One that is not known is refused: what it says must not be guessed.
const VERSION: u64 = 1;

/// That of a place between the records of one event. An outboxd that knows one record an event would pass over the others.
const VERSION_WITH_PART: u64 = 2;

/// What the record of a Kafka transaction says: everything up to a place is in Kafka.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) source: Source,
    pub(crate) place: Place,
    /// Where the transaction has written to: Kafka may have forgotten to commit it there.
    pub(crate) topics: Vec<String>,
    /// By what the history is known again. States of outboxd before 0.4 have none.
    pub(crate) seen: Option<Seen>,
}

/// What was seen of the source's history up to a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// None of its transactions committed later, by the server's clock.
    pub(crate) latest: PgTimestamp,
    /// Id and commit time of the transaction at the place; a logical message outside a transaction has neither.
    pub(crate) transaction: Option<(Xid, PgTimestamp)>,
}

/// Where the rows are from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Source {
    pub(crate) system_id: SystemId,
    pub(crate) timeline: TimelineId,
    pub(crate) database: String,
    pub(crate) slot: String,
    /// What the stream was asked for: with other options the rows of a transaction are numbered otherwise.
    pub(crate) stream: String,
}

/// Where a Kafka transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The last record.
    pub(crate) event: EventPosition,
    /// Further records of the same event are not in Kafka.
    pub(crate) more: bool,
    /// The end of its source transaction, when that is in Kafka to its end.
    pub(crate) end_lsn: Option<Lsn>,
}

/// A record that is none of ours.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Not JSON, or another value than an object.
    #[error("it is not a JSON object")]
    Json(#[source] serde_json::Error),
    /// Another form.
    #[error("its version is {0}, and this outboxd knows {VERSION} and {VERSION_WITH_PART} only")]
    Version(String),
    /// A member of another type.
    #[error("its member {0} is missing or not what outboxd writes")]
    Member(&'static str),
}

impl State {
    /// As it is written.
    pub(crate) fn to_json(&self) -> String {
        let Self { source, place, topics, seen } = self;
        let mut members = Map::new();
        let mut say = |name: &str, value: Value| members.insert(name.to_owned(), value);
        say("version", if place.more { VERSION_WITH_PART } else { VERSION }.into());
        say("system_id", source.system_id.0.clone().into());
        say("timeline", source.timeline.0.into());
        say("database", source.database.clone().into());
        say("slot", source.slot.clone().into());
        say("stream", source.stream.clone().into());
        say("commit_lsn", place.event.commit_lsn.to_string().into());
        say("ordinal", place.event.ordinal.into());
        if place.more {
            say("part", place.event.part.into());
        }
        say("end_lsn", place.end_lsn.map_or(Value::Null, |lsn| lsn.to_string().into()));
        say("topics", topics.clone().into());
        if let Some(Seen { latest, transaction }) = seen {
            say("latest_commit_us", latest.unix_us().into());
            if let Some((xid, commit_time)) = transaction {
                say("xid", xid.0.into());
                say("commit_us", commit_time.unix_us().into());
            }
        }
        Value::Object(members).to_string()
    }

    /// Reads what an earlier start wrote.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, StateError> {
        let members: Map<String, Value> = serde_json::from_slice(bytes).map_err(StateError::Json)?;
        let version = members.get("version");
        let more = match version.and_then(Value::as_u64) {
            Some(VERSION) => false,
            Some(VERSION_WITH_PART) => true,
            _ => {
                return Err(StateError::Version(
                    version.map_or_else(|| "missing".to_owned(), Value::to_string),
                ));
            }
        };
        let text =
            |name: &'static str| members.get(name).and_then(Value::as_str).ok_or(StateError::Member(name));
        let lsn = |name: &'static str| text(name)?.parse::<Lsn>().map_err(|_| StateError::Member(name));
        let number =
            |name: &'static str| members.get(name).and_then(Value::as_u64).ok_or(StateError::Member(name));
        let timeline = u32::try_from(number("timeline")?).map_err(|_| StateError::Member("timeline"))?;
        let source = Source {
            system_id: SystemId(text("system_id")?.to_owned()),
            timeline: TimelineId(timeline),
            database: text("database")?.to_owned(),
            slot: text("slot")?.to_owned(),
            stream: text("stream")?.to_owned(),
        };
        let event = EventPosition::new(lsn("commit_lsn")?, number("ordinal")?);
        let part = if more { number("part")? } else { 0 };
        let event =
            EventPosition { part: u32::try_from(part).map_err(|_| StateError::Member("part"))?, ..event };
        let end_lsn = match members.get("end_lsn") {
            Some(Value::Null) => None,
            _ => Some(lsn("end_lsn")?),
        };
        let topics = match members.get("topics") {
            None => Some(Vec::new()),
            Some(Value::Array(topics)) => {
                topics.iter().map(|topic| topic.as_str().map(str::to_owned)).collect()
            }
            Some(_) => None,
        };
        let topics = topics.ok_or(StateError::Member("topics"))?;
        let seen = Seen::parse(&members)?;
        Ok(Self { source, place: Place { event, more, end_lsn }, topics, seen })
    }
}

impl Seen {
    fn parse(members: &Map<String, Value>) -> Result<Option<Self>, StateError> {
        let number = |name: &'static str| match members.get(name) {
            None => Ok(None),
            Some(value) => value.as_i64().map(Some).ok_or(StateError::Member(name)),
        };
        let Some(latest) = number("latest_commit_us")? else { return Ok(None) };
        let (xid, commit) = (number("xid")?.map(u32::try_from).transpose(), number("commit_us")?);
        let xid = xid.map_err(|_| StateError::Member("xid"))?;
        let transaction = xid.zip(commit).map(|(xid, us)| (Xid(xid), PgTimestamp::from_unix_us(us)));
        Ok(Some(Self { latest: PgTimestamp::from_unix_us(latest), transaction }))
    }
}

impl Place {
    /// Inside a transaction of the source.
    pub(crate) const fn inside(event: EventPosition, more: bool) -> Self {
        Self { event, more, end_lsn: None }
    }

    /// The last position that is in Kafka: when the event is complete, whatever its parts are.
    pub(crate) const fn last(&self) -> EventPosition {
        if self.more { self.event } else { self.event.end_of_event() }
    }

    /// Everything before this is not known to be in Kafka from here on.
    pub(crate) fn furthest(&self) -> Lsn {
        self.end_lsn.unwrap_or(self.event.commit_lsn)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WRITTEN: &str = r#"{"version":1,"system_id":"7300000000000000001","timeline":2,"database":"shop","slot":"outbox","stream":"s","commit_lsn":"0/16B3748","ordinal":41,"end_lsn":null,"topics":["outbox.event.order","b"]}"#;

    #[test]
    fn the_form_is_fixed() {
        let state = State::parse(WRITTEN.as_bytes()).unwrap();
        assert_eq!(state.place.event, EventPosition::new(Lsn::new(0x16B_3748), 41));
        assert!(!state.place.more);
        assert_eq!(state.topics, ["outbox.event.order", "b"]);
        assert_eq!(state.to_json(), WRITTEN);
        assert_eq!(state.seen, None);
        let written = WRITTEN.replace(r#""version":1"#, r#""version":2"#);
        let written = written.replace(r#""ordinal":41"#, r#""ordinal":41,"part":1"#);
        let state = State::parse(written.as_bytes()).unwrap();
        let second = EventPosition::new(Lsn::new(0x16B_3748), 41).next_part();
        assert_eq!((state.place.event, state.place.more), (second, true));
        assert_eq!(state.to_json(), written);
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        let cases = [
            ("", "", "not a JSON object"),
            (r#""version":1"#, r#""version":3"#, "its version is 3"),
            (r#""version":1"#, r#""version":2"#, "part"),
            (r#""version":1"#, r#""version":2,"part":4294967296"#, "part"),
            (r#""version":1,"#, "", "its version is missing"),
            (r#""ordinal":41"#, r#""ordinal":-1"#, "ordinal"),
            (r#""timeline":2"#, r#""timeline":4294967296"#, "timeline"),
            ("0/16B3748", "16B3748", "commit_lsn"),
            (r#""end_lsn":null"#, r#""end_lsn":7"#, "end_lsn"),
            (r#""slot":"outbox""#, r#""slot":null"#, "slot"),
            (r#"["outbox.event.order","b"]"#, "null", "topics"),
            (r#""b"]"#, "7]", "topics"),
            (r#""b"]"#, r#""b"],"latest_commit_us":"7""#, "latest_commit_us"),
            (r#""b"]"#, r#""b"],"latest_commit_us":7,"xid":-1"#, "xid"),
        ];
        for (from, to, expected) in cases {
            let text = if from.is_empty() { "[]".to_owned() } else { WRITTEN.replace(from, to) };
            let said = State::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(said.contains(expected), "{text}: {said}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            names in prop::collection::vec(".{0,12}", 4), timeline: u32, commit: u64, ordinal: u64, part: Option<u32>, end: Option<u64>,
            topics in prop::collection::vec(".{0,12}", 0..4), seen: Option<(i32, Option<(u32, i32)>)>,
        ) {
            let [system_id, database, slot, stream] = names.try_into().unwrap();
            let source = Source {
                system_id: SystemId(system_id), timeline: TimelineId(timeline), database, slot, stream,
            };
            let event = EventPosition::new(Lsn::new(commit), ordinal);
            let event = part.map_or(event, |part| EventPosition { part, ..event });
            let time = |time: i32| PgTimestamp(i64::from(time));
            let seen = seen.map(|(latest, transaction)| Seen {
                latest: time(latest), transaction: transaction.map(|(xid, at)| (Xid(xid), time(at))),
            });
            let state = State { source, place: Place { event, more: part.is_some(), end_lsn: end.map(Lsn::new) }, topics, seen };
            prop_assert_eq!(State::parse(state.to_json().as_bytes()).unwrap(), state);
        }

        #[test]
        fn nothing_makes_it_panic(bytes: Vec<u8>) {
            drop(State::parse(&bytes));
        }
    }
}
