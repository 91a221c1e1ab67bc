//! Ownership of a partition in PostgreSQL.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio_postgres::types::Type;

use super::connection::Connection;
use super::error::{DriverError, Error};
use super::session::{Parameter, Row};
use super::statements::{
    BEGUN, Begin, END_HOLDERS, GIVE_BACK, HAS_UNSCOPED, LOST, Mark, STORE_OFFSETS, TAKE_OVER,
};
use super::way::{self, Comparable, Remembers, Way};
use super::{parking, positions};
use crate::core::{Job, ParkedEvent, PartitionId, Suspects};
use crate::event::Position;

/// Maximum wait for the transactions of the consumer that had the partition before. After that their sessions are ended, since that
/// consumer may be suspended forever.
pub(super) const HOLDERS_END_WITHIN: &str = "5s";

/// Proof that this consumer has a partition. It is invalid as soon as another consumer takes the partition.
#[derive(Debug, Clone)]
pub(crate) struct Tenancy {
    pub(super) partition: i32,
    pub(super) epoch: i64,
    pub(super) consumer: Arc<str>,
    /// Topic of the partition. The numbers of a key are counted in each topic.
    pub(super) topic: Arc<str>,
    /// Data by which positions are comparable; `None` if repeats cannot be recognized by position.
    pub(crate) comparable: Option<Comparable>,
    /// True if the consumer remembers ids without a source, from a version that had none.
    pub(super) has_unscoped: bool,
    /// Offset before which handlers may have begun events, according to the stored mark.
    marked_until: Arc<AtomicI64>,
    /// Run of the server, with the tables, in which the partition was taken.
    pub(super) incarnation: Arc<str>,
}

/// Number of events after those that are begun which a mark includes too, so that they need none of their own. After a crash they are
/// handled one by one, once.
const MARKED_AHEAD: i64 = 256;

impl Tenancy {
    /// Returns the mark to store before the handlers of a job begin. A parked event has a mark of its own, since its offset may be before
    /// the open ones.
    pub(crate) fn mark(&self, job: &Job) -> Mark {
        if let [event] = job.events.as_slice()
            && (job.begun > 0 || job.is_parked)
        {
            return Mark::Event { offset: event.offset, begun: job.begun, is_parked: job.is_parked };
        }
        let last = job.events.iter().map(|event| event.offset).max().unwrap_or_default();
        if last < self.marked_until.load(Ordering::Relaxed) {
            return Mark::Known;
        }
        Mark::Range { from: job.open_from, until: last.saturating_add(MARKED_AHEAD) }
    }

    /// Returns the statements that begin a transaction of this tenancy.
    pub(super) fn begin(&self, mark: Mark) -> Begin {
        Begin { partition: self.partition, epoch: self.epoch, connection: 0, mark }
    }

    /// Records that the mark is stored.
    pub(super) fn set_marked(&self, mark: Mark) {
        if let Mark::Range { until, .. } = mark {
            self.marked_until.fetch_max(until, Ordering::Relaxed);
        }
    }
}

/// Gives a partition back: from now on other consumers begin its events.
pub(crate) async fn give_back(connection: &Connection, tenancy: &Tenancy) -> Result<(), Error> {
    let parameters: [Parameter<'_>; 2] = [(&tenancy.partition, Type::INT4), (&tenancy.epoch, Type::INT8)];
    let given_back = connection.query(GIVE_BACK, &parameters).await;
    given_back.map(drop).map_err(Error::of("give back a partition"))
}

/// Offset to store for a partition.
#[derive(Debug, Clone)]
pub(crate) struct End {
    pub(crate) tenancy: Tenancy,
    /// Offset up to which the events have ended.
    pub(crate) next_offset: i64,
    /// Offset that this consumer stored last, if it has stored one.
    pub(crate) last_stored: Option<i64>,
}

/// Reason for which no offset is stored for a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotStored {
    /// It was taken in another incarnation of the database, or the tables have an older offset than the last one stored.
    Moved,
    /// Another session has taken it.
    Fenced,
}

/// Stores the offsets up to which the events of partitions have ended. This happens before they are committed to Kafka, and in the same
/// process that committed the effects. Returns, by their indexes, the partitions for which nothing is stored.
///
/// Invariant: an offset is valid only for the database whose transactions it stands for. A failover or a restore may have lost the last of
/// them.
pub(crate) async fn store_offsets(
    connection: &Connection,
    ends: &[End],
) -> Result<Vec<(usize, NotStored)>, Error> {
    let doing = "store offsets";
    let ids: Vec<i32> = ends.iter().map(|end| end.tenancy.partition).collect();
    let epochs: Vec<i64> = ends.iter().map(|end| end.tenancy.epoch).collect();
    let offsets: Vec<i64> = ends.iter().map(|end| end.next_offset).collect();
    let incarnations: Vec<&str> = ends.iter().map(|end| &*end.tenancy.incarnation).collect();
    let last_stored: Vec<Option<i64>> = ends.iter().map(|end| end.last_stored).collect();
    let parameters: [Parameter<'_>; 5] = [
        (&ids, Type::INT4_ARRAY),
        (&epochs, Type::INT8_ARRAY),
        (&offsets, Type::INT8_ARRAY),
        (&incarnations, Type::TEXT_ARRAY),
        (&last_stored, Type::INT8_ARRAY),
    ];
    let rows = connection.query(STORE_OFFSETS, &parameters).await.map_err(Error::of(doing))?;
    let not_stored = |row: &Row| {
        let (is_here, is_held): (bool, bool) = (row.get(2)?, row.get(3)?);
        let reason = match (is_here, is_held) {
            (true, true) => return Ok(None),
            (false, _) => NotStored::Moved,
            (true, false) => NotStored::Fenced,
        };
        Ok(Some((index(row)?, reason)))
    };
    let all = rows.iter().map(not_stored).filter_map(Result::transpose);
    all.collect::<Result<_, DriverError>>().map_err(Error::of(doing))
}

/// Returns the index that is in the first column as a number from 1.
fn index(row: &Row) -> Result<usize, DriverError> {
    Ok(usize::try_from(row.get::<i32>(0)?).unwrap_or_default().saturating_sub(1))
}

/// Returns which of these partitions another session has taken since, by their indexes.
pub(crate) async fn find_lost(connection: &Connection, held: &[Tenancy]) -> Result<Vec<usize>, Error> {
    let doing = "check which partitions are held";
    let ids: Vec<i32> = held.iter().map(|tenancy| tenancy.partition).collect();
    let epochs: Vec<i64> = held.iter().map(|tenancy| tenancy.epoch).collect();
    let parameters: [Parameter<'_>; 2] = [(&ids, Type::INT4_ARRAY), (&epochs, Type::INT8_ARRAY)];
    let rows = connection.query(LOST, &parameters).await.map_err(Error::of(doing))?;
    if held.iter().any(|tenancy| !connection.is_of(tenancy)) {
        return Ok((0..held.len()).collect());
    }
    rows.iter().map(index).collect::<Result<_, DriverError>>().map_err(Error::of(doing))
}

/// Partition that was taken, with the state that the previous consumer left.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) tenancy: Tenancy,
    /// Events that handlers may have been working on when the process ended.
    pub(crate) suspects: Suspects,
    /// Parked events, in order.
    pub(crate) parked: Vec<ParkedEvent>,
    /// Offset up to which the events have ended, as this database has stored it.
    pub(crate) next_offset: Option<i64>,
    /// Another consumer group that had the partition before.
    pub(crate) other_group: Option<String>,
    /// Greatest positions that are done; `None` if they do not determine which events are new.
    pub(crate) greatest: Option<Vec<Position>>,
}

impl Taken {
    /// Returns the run of the server, and the tables, in which the partition was taken.
    pub(crate) fn incarnation(&self) -> &str {
        &self.tenancy.incarnation
    }
}

/// Takes a partition from the consumer that had it.
pub(crate) async fn take(
    connection: &Connection,
    consumer: &Arc<str>,
    id: &PartitionId,
    remembers: Remembers,
    group: Option<&str>,
) -> Result<Taken, Error> {
    let comparable = begin(connection, consumer, &id.topic, remembers).await?;
    let taken = take_over(connection, consumer, id, comparable, group).await;
    let end = if taken.is_ok() { "COMMIT" } else { "ROLLBACK" };
    connection.batch(end).await.map_err(Error::of("take the partition"))?;
    taken
}

/// Begins a transaction in which the repeats of the topic are recognized by the data that this consumer remembers.
async fn begin(
    connection: &Connection,
    consumer: &str,
    topic: &str,
    remembers: Remembers,
) -> Result<Option<Comparable>, Error> {
    loop {
        let way = way::begin(connection, consumer, topic, remembers).await;
        if let Ok(Way::Known(comparable)) = way {
            return Ok(comparable);
        }
        connection.batch("ROLLBACK").await.map_err(Error::of("roll back"))?;
        // Each change is made once, by the first consumer that needs it.
        if let Way::Changes(change) = way.map_err(Error::of("read how repeats are known"))? {
            connection.change_way(consumer, topic, change).await?;
        }
    }
}

/// Ends the sessions that hold a lock, such as those that do not give back a partition.
pub(super) async fn end_holders(connection: &Connection, class: i32, number: i32) -> Result<(), Error> {
    let who: [Parameter<'_>; 2] = [(&class, Type::INT4), (&number, Type::INT4)];
    let ended = connection.query(END_HOLDERS, &who).await;
    ended.map_err(Error::of("end the sessions that hold a lock"))?;
    Ok(())
}

/// Takes the partition with the function that consumers in other languages call, and reads the parked events.
async fn take_over(
    connection: &Connection,
    consumer: &Arc<str>,
    id: &PartitionId,
    comparable: Option<Comparable>,
    group: Option<&str>,
) -> Result<Taken, Error> {
    let doing = "take the partition";
    let name: &str = consumer;
    let parameters: [Parameter<'_>; 4] =
        [(&name, Type::TEXT), (&&*id.topic, Type::TEXT), (&id.partition, Type::INT4), (&group, Type::TEXT)];
    let row = connection.query_one(TAKE_OVER, &parameters).await.map_err(Error::of(doing))?;
    let partition: i32 = row.get(0).map_err(Error::of(doing))?;
    let number = |index: usize| row.get::<i64>(index).map_err(Error::of(doing));
    let (epoch, maybe) = (number(1)?, number(2)?..number(3)?);
    let next_offset: Option<i64> = row.get(4).map_err(Error::of(doing))?;
    let former_group: Option<String> = row.get(5).map_err(Error::of(doing))?;
    let incarnation: String = row.get(6).map_err(Error::of(doing))?;
    let other_group = former_group.filter(|former| group.is_some_and(|group| group != former));
    let mut begun = BTreeMap::new();
    for row in connection.query(BEGUN, &[(&partition, Type::INT4)]).await.map_err(Error::of(doing))? {
        let offset: i64 = row.get(0).map_err(Error::of(doing))?;
        let count: i32 = row.get(1).map_err(Error::of(doing))?;
        begun.insert(offset, u32::try_from(count).unwrap_or_default());
    }
    let parked = parking::list(connection, partition).await?;
    let row = connection.query_one(HAS_UNSCOPED, &[(&name, Type::TEXT)]).await;
    let has_unscoped = row.and_then(|row| row.get(0)).map_err(Error::of(doing))?;
    let tenancy = Tenancy {
        partition,
        epoch,
        consumer: Arc::clone(consumer),
        topic: Arc::clone(&id.topic),
        comparable,
        has_unscoped,
        marked_until: Arc::new(AtomicI64::new(0)),
        incarnation: Arc::from(incarnation),
    };
    let greatest = positions::greatest(connection, &tenancy).await?;
    Ok(Taken { tenancy, suspects: Suspects::new(maybe, begun), parked, next_offset, other_group, greatest })
}
