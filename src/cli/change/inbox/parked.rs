//! Parked events in the tables.

use std::sync::Arc;

use outboxd_inbox::event::{Event, Header, IdSource};
use tokio_postgres::Row;

use super::place::{Place, Selection};
use super::reason::{Reason, WaitState};
use super::tables::{Tables, get};
use crate::postgres::Error;

/// Parked events of a consumer: $2 to $6 select by key, id and place, $7 by partition.
const SELECT: &str = "SELECT held.id, held.topic, held.partition, parked.\"offset\", parked.key, parked.attempts, parked.begun, parked.error, \
     (extract(epoch FROM parked.not_before) * 1000)::bigint, parked.not_before <= now(), parked.is_dead, parked.number, sequence.next, \
     (extract(epoch FROM parked.parked_at) * 1000)::bigint, parked.timestamp_ms, parked.header_names, parked.header_values, \
     octet_length(parked.value), EXISTS (SELECT FROM inbox_parked AS earlier WHERE earlier.partition_id = parked.partition_id \
         AND earlier.key = parked.key AND earlier.\"offset\" < parked.\"offset\") \
     FROM inbox_parked AS parked JOIN inbox_partition AS held ON held.id = parked.partition_id \
     LEFT JOIN inbox_sequence AS sequence ON sequence.consumer = held.consumer AND sequence.topic = held.topic AND sequence.key = parked.key \
     WHERE held.consumer = $1 AND ($2::bytea IS NULL OR parked.key = $2) \
     AND ($3::text IS NULL OR EXISTS (SELECT FROM unnest(parked.header_values) AS value WHERE position(convert_to($3, 'UTF8') IN value) > 0)) \
     AND ($4::text IS NULL OR held.topic = $4 AND held.partition = $5::int AND parked.\"offset\" = $6::bigint) \
     AND ($7::int IS NULL OR parked.partition_id = $7) ORDER BY held.topic, held.partition, parked.\"offset\"";

/// A parked event without its value.
#[derive(Debug, Clone)]
pub(super) struct Parked {
    pub(super) partition_id: i32,
    pub(super) place: Place,
    pub(super) attempts: i32,
    pub(super) begun: i32,
    pub(super) error: Option<String>,
    pub(super) not_before_ms: i64,
    pub(super) is_due: bool,
    pub(super) is_dead: bool,
    pub(super) number: Option<i64>,
    /// The next number of its key.
    pub(super) next: Option<i64>,
    pub(super) parked_at_ms: i64,
    pub(super) value_bytes: Option<i32>,
    pub(super) is_behind: bool,
    /// The event, without its value.
    pub(super) event: Event,
}

impl Parked {
    pub(super) fn key(&self) -> Option<&[u8]> {
        self.event.key.as_deref()
    }

    /// Returns the id in the headers, if there is one.
    pub(super) fn id(&self) -> Option<String> {
        IdSource::default().id(&self.event).ok()
    }

    pub(super) fn reason(&self) -> Reason {
        WaitState {
            is_dead: self.is_dead,
            number: self.number,
            next: self.next,
            is_behind: self.is_behind,
            is_due: self.is_due,
            begun: self.begun,
        }
        .reason()
    }

    fn read(row: &Row) -> Result<Self, Error> {
        let (names, values): (Vec<Vec<u8>>, Vec<Option<Vec<u8>>>) = (get(row, 15)?, get(row, 16)?);
        let header =
            |(name, value): (Vec<u8>, _)| Header { name: String::from_utf8_lossy(&name).into_owned(), value };
        let place = Place { topic: get(row, 1)?, partition: get(row, 2)?, offset: get(row, 3)? };
        let event = Event {
            topic: Arc::from(place.topic.as_str()),
            partition: place.partition,
            offset: place.offset,
            key: get(row, 4)?,
            value: None,
            headers: names.into_iter().zip(values).map(header).collect(),
            timestamp_ms: get(row, 14)?,
        };
        Ok(Self {
            partition_id: get(row, 0)?,
            place,
            attempts: get(row, 5)?,
            begun: get(row, 6)?,
            error: get(row, 7)?,
            not_before_ms: get(row, 8)?,
            is_due: get(row, 9)?,
            is_dead: get(row, 10)?,
            number: get(row, 11)?,
            next: get(row, 12)?,
            parked_at_ms: get(row, 13)?,
            value_bytes: get(row, 17)?,
            is_behind: get(row, 18)?,
            event,
        })
    }
}

/// Reads the selected events in their order, of all partitions or of one.
pub(super) async fn select(
    tables: &Tables,
    consumer: &str,
    selection: &Selection,
    partition_id: Option<i32>,
) -> Result<Vec<Parked>, Error> {
    let key = if let Selection::Key(key) = selection { Some(key) } else { None };
    let id = if let Selection::Id(id) = selection { Some(id) } else { None };
    let place = if let Selection::Place(place) = selection { Some(place) } else { None };
    let topic = place.map(|place| &place.topic);
    let (partition, offset) = (place.map(|place| place.partition), place.map(|place| place.offset));
    let rows =
        tables.query(SELECT, &[&consumer, &key, &id, &topic, &partition, &offset, &partition_id]).await?;
    let mut events = rows.iter().map(Parked::read).collect::<Result<Vec<_>, _>>()?;
    // The statement has found the id in any header and as a part.
    events.retain(|event| id.is_none_or(|id| event.id().as_ref() == Some(id)));
    Ok(events)
}

#[cfg(test)]
pub(super) mod tests {
    use outboxd_inbox::event::Headers;

    use super::*;

    /// Makes an event that failed, of key "k", in partition 0 of topic "t".
    pub(in crate::cli::change::inbox) fn parked(offset: i64) -> Parked {
        Parked {
            partition_id: 1,
            place: Place { topic: "t".to_owned(), partition: 0, offset },
            attempts: 2,
            begun: 0,
            error: Some("no".to_owned()),
            not_before_ms: 0,
            is_due: false,
            is_dead: false,
            number: None,
            next: None,
            parked_at_ms: 0,
            value_bytes: None,
            is_behind: false,
            event: Event {
                topic: "t".into(),
                partition: 0,
                offset,
                key: Some(b"k".to_vec()),
                value: None,
                headers: Headers::default(),
                timestamp_ms: None,
            },
        }
    }
}
