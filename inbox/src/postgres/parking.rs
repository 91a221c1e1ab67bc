//! Events that wait in a table.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio_postgres::types::Type;

use super::connection::{Connection, Opener};
use super::error::{DriverError, Error};
use super::sequence::DeadNumber;
use super::session::{Parameter, Row};
use super::statements::{
    BEGIN_OWN, HELD, LOAD, MOVE_BEFORE, MOVE_PARKED, PARK, PARKED, PARKED_BEFORE, PARKED_OF_KEY, TAKE_AWAY,
    UNPARK, UNPARK_SAME,
};
use super::tenancy::Tenancy;
use crate::core::{Failed, LaneName, Loaded, ParkedEvent, PartitionId};
use crate::event::{Event, Header, Headers};

/// Result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    Yes,
    /// Another consumer has the partition; nothing was written.
    Fenced,
}

/// Row that remains in the table for an event that became a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// No row.
    Gone,
    /// The event, so that the later events of its key wait.
    Blocks,
}

impl Connection {
    /// Parks events. `failed` describes the failure of the first one, if it has failed.
    pub(crate) async fn park(
        &self,
        tenancy: &Tenancy,
        events: &[Arc<Event>],
        failed: Option<&Failed>,
    ) -> Result<Written, Error> {
        if !self.begin_own(tenancy).await? {
            return Ok(Written::Fenced);
        }
        if self.move_before(tenancy, events).await? {
            return Ok(Written::Fenced);
        }
        let doing = "park events";
        // The first one is written alone, because it prepares the statement.
        if let Some((first, later)) = events.split_first() {
            let state = failed.map_or(State::BEHIND, State::of);
            self.write(tenancy, first, state).await.map_err(Error::of(doing))?;
            let writes = later.iter().map(|event| self.write(tenancy, event, State::BEHIND));
            try_join_all(writes).await.map_err(Error::of(doing))?;
        }
        self.commit_own(doing).await
    }

    /// Stores that an event has become a dead letter.
    pub(crate) async fn settle(
        &self,
        tenancy: &Tenancy,
        event: &Arc<Event>,
        settled: Settled,
        number: Option<DeadNumber>,
    ) -> Result<Written, Error> {
        if !self.begin_own(tenancy).await? {
            return Ok(Written::Fenced);
        }
        let doing = "write down that an event is a dead letter";
        match settled {
            Settled::Gone => {
                let record: [Parameter<'_>; 4] = [
                    (&tenancy.partition, Type::INT4),
                    (&event.offset, Type::INT8),
                    (&event.timestamp_ms, Type::INT8),
                    (&event.key, Type::BYTEA),
                ];
                self.query(UNPARK_SAME, &record).await.map_err(Error::of(doing))?;
            }
            Settled::Blocks if self.move_before(tenancy, std::slice::from_ref(event)).await? => {
                return Ok(Written::Fenced);
            }
            Settled::Blocks => {
                self.write(tenancy, event, State::DEAD).await.map_err(Error::of(doing))?;
            }
        }
        if let (Some(number), Some(key)) = (number, &event.key) {
            self.pass_number(tenancy, key, number).await?;
        }
        self.commit_own(doing).await
    }

    /// Reads the first event of a lane.
    pub(crate) async fn load(
        &self,
        tenancy: &Tenancy,
        partition: &PartitionId,
        lane: &LaneName,
    ) -> Result<Loaded, Error> {
        let (key, offset) = match lane {
            LaneName::Key(key) => (Some(&**key), None),
            LaneName::Partition => (None, None),
            LaneName::Offset(offset) => (None, Some(*offset)),
        };
        let (doing, consumer, topic) = ("read a parked event", &*tenancy.consumer, &*tenancy.topic);
        let which: [Parameter<'_>; 5] = [
            (&tenancy.partition, Type::INT4),
            (&key, Type::BYTEA),
            (&offset, Type::INT8),
            (&consumer, Type::TEXT),
            (&topic, Type::TEXT),
        ];
        let row = self.query(LOAD, &which).await.map_err(Error::of(doing))?.pop();
        row.map_or(Ok(Loaded::Nothing), |row| loaded(&row, partition)).map_err(Error::of(doing))
    }

    async fn write(&self, tenancy: &Tenancy, event: &Event, state: State<'_>) -> Result<(), DriverError> {
        let (names, values) = header_columns(event);
        let parameters: [Parameter<'_>; 12] = [
            (&tenancy.partition, Type::INT4),
            (&event.offset, Type::INT8),
            (&event.timestamp_ms, Type::INT8),
            (&event.key, Type::BYTEA),
            (&event.value, Type::BYTEA),
            (&names, Type::BYTEA_ARRAY),
            (&values, Type::BYTEA_ARRAY),
            (&state.attempts, Type::INT4),
            (&state.error, Type::TEXT),
            (&state.wait, Type::FLOAT8),
            (&state.is_dead, Type::BOOL),
            (&state.begun, Type::INT4),
        ];
        self.query(PARK, &parameters).await.map(drop)
    }

    /// Moves parked events out of the way that have the offsets of these and are other records: those of a topic that was deleted and
    /// created again since. Returns whether there were any; then the transaction has ended, and the partition must be taken again.
    async fn move_before(&self, tenancy: &Tenancy, events: &[Arc<Event>]) -> Result<bool, Error> {
        let doing = "compare parked events";
        let offsets: Vec<i64> = events.iter().map(|event| event.offset).collect();
        let timestamps: Vec<Option<i64>> = events.iter().map(|event| event.timestamp_ms).collect();
        let keys: Vec<Option<&[u8]>> = events.iter().map(|event| event.key.as_deref()).collect();
        let records: [Parameter<'_>; 4] = [
            (&tenancy.partition, Type::INT4),
            (&offsets, Type::INT8_ARRAY),
            (&timestamps, Type::INT8_ARRAY),
            (&keys, Type::BYTEA_ARRAY),
        ];
        let row = self.query_one(PARKED_BEFORE, &records).await;
        let until: Option<String> = row.and_then(|row| row.get(0)).map_err(Error::of(doing))?;
        let Some(until) = until else { return Ok(false) };
        tracing::warn!(
            topic = &*tenancy.topic,
            partition_id = tenancy.partition,
            "parked events have the offsets of other records: the topic was created again. They keep their order, with negative offsets"
        );
        let until: [Parameter<'_>; 2] = [(&tenancy.partition, Type::INT4), (&until, Type::TEXT)];
        self.query(MOVE_BEFORE, &until).await.map_err(Error::of(doing))?;
        self.query(TAKE_AWAY, &[(&tenancy.partition, Type::INT4)]).await.map_err(Error::of(doing))?;
        self.commit_own(doing).await?;
        Ok(true)
    }

    /// Begins a transaction and reports whether the partition is still held; if not, the transaction is rolled back.
    async fn begin_own(&self, tenancy: &Tenancy) -> Result<bool, Error> {
        let doing = "begin";
        self.batch(BEGIN_OWN).await.map_err(Error::of(doing))?;
        let held: [Parameter<'_>; 2] = [(&tenancy.partition, Type::INT4), (&tenancy.epoch, Type::INT8)];
        let is_held: bool =
            self.query_one(HELD, &held).await.and_then(|row| row.get(0)).map_err(Error::of(doing))?;
        if !is_held {
            self.batch("ROLLBACK").await.map_err(Error::of("roll back"))?;
        }
        Ok(is_held)
    }

    /// Rolls back after a statement that failed.
    pub(crate) async fn roll_back_own(&self) -> Result<(), Error> {
        self.batch("ROLLBACK").await.map_err(Error::of("roll back"))
    }

    async fn commit_own(&self, doing: &'static str) -> Result<Written, Error> {
        self.batch("COMMIT").await.map_err(Error::of(doing))?;
        Ok(Written::Yes)
    }
}

impl Opener {
    /// Releases a key whose later events wait behind a dead letter; returns the number of its dead letters. If a dead letter was sent again
    /// and waits behind them, it moves to the place of the original; `is_same` compares two events by their identity.
    pub(crate) async fn release(
        &self,
        consumer: &str,
        key: &[u8],
        is_same: impl Fn(&Event, &Event) -> bool,
    ) -> Result<u64, Error> {
        let doing = "release a key";
        let connection = self.connect().await?;
        connection.batch("BEGIN").await.map_err(Error::of(doing))?;
        let which: [Parameter<'_>; 2] = [(&consumer, Type::TEXT), (&key, Type::BYTEA)];
        let rows = connection.query(PARKED_OF_KEY, &which).await.map_err(Error::of(doing))?;
        let parked: Result<Vec<_>, DriverError> = rows.iter().map(Waiting::read).collect();
        let mut parked = parked.map_err(Error::of(doing))?;
        let dead: Vec<Waiting> = parked.extract_if(.., |waiting| waiting.is_dead).collect();
        for letter in &dead {
            let place: [Parameter<'_>; 2] =
                [(&letter.partition_id, Type::INT4), (&letter.event.offset, Type::INT8)];
            connection.query(UNPARK, &place).await.map_err(Error::of(doing))?;
            let is_again = |waiting: &Waiting| {
                waiting.partition_id == letter.partition_id && is_same(&waiting.event, &letter.event)
            };
            let Some(again) = parked.iter().position(is_again).map(|index| parked.remove(index)) else {
                continue;
            };
            let places: [Parameter<'_>; 3] = [
                (&letter.partition_id, Type::INT4),
                (&again.event.offset, Type::INT8),
                (&letter.event.offset, Type::INT8),
            ];
            connection.query(MOVE_PARKED, &places).await.map_err(Error::of(doing))?;
        }
        connection.batch("COMMIT").await.map_err(Error::of(doing))?;
        Ok(u64::try_from(dead.len()).unwrap_or(u64::MAX))
    }
}

/// Parked event of a key.
struct Waiting {
    partition_id: i32,
    is_dead: bool,
    event: Event,
}

impl Waiting {
    fn read(row: &Row) -> Result<Self, DriverError> {
        let topic: String = row.get(3)?;
        let event = Event {
            topic: Arc::from(topic),
            partition: row.get(4)?,
            offset: row.get(1)?,
            timestamp_ms: row.get(9)?,
            key: row.get(7)?,
            value: row.get(8)?,
            headers: headers(row.get(5)?, row.get(6)?),
        };
        Ok(Self { partition_id: row.get(0)?, is_dead: row.get(2)?, event })
    }
}

/// Returns an event's headers as two columns: names and values.
pub(super) fn header_columns(event: &Event) -> (Vec<&[u8]>, Vec<Option<&[u8]>>) {
    event.headers.iter().map(|header| (header.name.as_bytes(), header.value.as_deref())).unzip()
}

/// State of a parked event besides its record.
#[derive(Debug, Clone, Copy)]
struct State<'a> {
    attempts: i32,
    error: Option<&'a str>,
    wait: f64,
    is_dead: bool,
    begun: i32,
}

impl State<'_> {
    const BEHIND: State<'static> = State { attempts: 0, error: None, wait: 0.0, is_dead: false, begun: 0 };
    const DEAD: State<'static> = State { attempts: 0, error: None, wait: 0.0, is_dead: true, begun: 0 };
}

impl<'a> State<'a> {
    fn of(failed: &'a Failed) -> Self {
        Self {
            attempts: i32::try_from(failed.attempts).unwrap_or(i32::MAX),
            error: Some(&failed.error),
            wait: failed.wait.as_secs_f64(),
            is_dead: false,
            begun: i32::try_from(failed.begun).unwrap_or(i32::MAX),
        }
    }
}

/// Reads the parked events of a partition, in order.
pub(super) async fn list(connection: &Connection, partition: i32) -> Result<Vec<ParkedEvent>, Error> {
    let doing = "read the parked events";
    let rows = connection.query(PARKED, &[(&partition, Type::INT4)]).await.map_err(Error::of(doing))?;
    let event = |row: &Row| {
        let wait: Option<f64> = row.get(2)?;
        Ok(ParkedEvent { key: row.get(0)?, offset: row.get(1)?, wait: wait.map(seconds) })
    };
    rows.iter().map(event).collect::<Result<_, DriverError>>().map_err(Error::of(doing))
}

fn loaded(row: &Row, partition: &PartitionId) -> Result<Loaded, DriverError> {
    let (attempts, is_dead, wait): (i32, bool, f64) = (row.get(6)?, row.get(7)?, row.get(8)?);
    if is_dead {
        return Ok(Loaded::Dead);
    }
    if wait > 0.0 {
        return Ok(Loaded::Waits(seconds(wait)));
    }
    let event = Event {
        topic: Arc::clone(&partition.topic),
        partition: partition.partition,
        offset: row.get(0)?,
        timestamp_ms: row.get(1)?,
        key: row.get(2)?,
        value: row.get(3)?,
        headers: headers(row.get(4)?, row.get(5)?),
    };
    let count = |number: i32| u32::try_from(number).unwrap_or_default();
    Ok(Loaded::Due { event: Arc::new(event), attempts: count(attempts), begun: count(row.get(9)?) })
}

fn headers(names: Vec<Vec<u8>>, values: Vec<Option<Vec<u8>>>) -> Headers {
    let header =
        |(name, value): (Vec<u8>, _)| Header { name: String::from_utf8_lossy(&name).into_owned(), value };
    names.into_iter().zip(values).map(header).collect()
}

fn seconds(wait: f64) -> Duration {
    Duration::try_from_secs_f64(wait).unwrap_or_default()
}
