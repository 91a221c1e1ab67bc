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

/// How long the transactions of the consumer that had the partition before are waited for. After that their sessions are
/// ended: that consumer may be stopped in the middle, for ever.
pub(super) const HOLDERS_END_WITHIN: &str = "5s";

/// Proof that this consumer has a partition. It is worth nothing as soon as another one takes it.
#[derive(Debug, Clone)]
pub(crate) struct Tenancy {
    pub(super) partition: i32,
    pub(super) epoch: i64,
    pub(super) consumer: Arc<str>,
    /// What makes positions comparable; `None` when they are not enough to know a repeat.
    pub(crate) comparable: Option<Comparable>,
    /// The consumer remembers ids without a source, of a version that had none.
    pub(super) has_unscoped: bool,
    /// It is written down that handlers may have begun the events before this offset.
    marked_until: Arc<AtomicI64>,
}

/// A mark includes so many events behind those that are begun, so that these need none. After a crash they are handled one
/// by one, once.
const MARKED_AHEAD: i64 = 256;

impl Tenancy {
    /// What must be written down before the handlers of a job begin. Parked events are behind the open ones.
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

    /// What begins a transaction of this tenancy.
    pub(super) fn begin(&self, mark: Mark) -> Begin {
        Begin { partition: self.partition, epoch: self.epoch, connection: 0, mark }
    }

    /// It is written down.
    pub(super) fn set_marked(&self, mark: Mark) {
        if let Mark::Range { until, .. } = mark {
            self.marked_until.fetch_max(until, Ordering::Relaxed);
        }
    }
}

/// Gives a partition back: what is begun from now on is begun by others.
pub(crate) async fn give_back(connection: &Connection, tenancy: &Tenancy) -> Result<(), Error> {
    let parameters: [Parameter<'_>; 2] = [(&tenancy.partition, Type::INT4), (&tenancy.epoch, Type::INT8)];
    let given_back = connection.query(GIVE_BACK, &parameters).await;
    given_back.map(drop).map_err(Error::of("give back a partition"))
}

/// Stores up to where the events of partitions have ended. It is stored before Kafka is told, and by the same process that
/// committed the effects. So after the loss of some transactions it is not beyond those that remain.
pub(crate) async fn store_offsets(connection: &Connection, ends: &[(Tenancy, i64)]) -> Result<(), Error> {
    let ids: Vec<i32> = ends.iter().map(|(tenancy, _)| tenancy.partition).collect();
    let epochs: Vec<i64> = ends.iter().map(|(tenancy, _)| tenancy.epoch).collect();
    let offsets: Vec<i64> = ends.iter().map(|(_, end)| *end).collect();
    let parameters: [Parameter<'_>; 3] =
        [(&ids, Type::INT4_ARRAY), (&epochs, Type::INT8_ARRAY), (&offsets, Type::INT8_ARRAY)];
    connection.query(STORE_OFFSETS, &parameters).await.map(drop).map_err(Error::of("store offsets"))
}

/// Returns which of these partitions another session has taken since, by their indexes.
pub(crate) async fn find_lost(connection: &Connection, held: &[Tenancy]) -> Result<Vec<usize>, Error> {
    let doing = "check which partitions are held";
    let ids: Vec<i32> = held.iter().map(|tenancy| tenancy.partition).collect();
    let epochs: Vec<i64> = held.iter().map(|tenancy| tenancy.epoch).collect();
    let parameters: [Parameter<'_>; 2] = [(&ids, Type::INT4_ARRAY), (&epochs, Type::INT8_ARRAY)];
    let rows = connection.query(LOST, &parameters).await.map_err(Error::of(doing))?;
    let index = |row: &Row| Ok(usize::try_from(row.get::<i32>(0)?).unwrap_or_default().saturating_sub(1));
    rows.iter().map(index).collect::<Result<_, DriverError>>().map_err(Error::of(doing))
}

/// A partition, with what the consumer before has left.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) tenancy: Tenancy,
    /// The events at which handlers may have been when the process ended.
    pub(crate) suspects: Suspects,
    /// The events that are parked, in order.
    pub(crate) parked: Vec<ParkedEvent>,
    /// Up to where its events have ended, as this database remembers it.
    pub(crate) next_offset: Option<i64>,
    /// Another consumer group that had the partition before.
    pub(crate) other_group: Option<String>,
    /// The greatest positions that are done. `None` when that does not say what is new.
    pub(crate) greatest: Option<Vec<Position>>,
}

/// Takes a partition from whoever had it.
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

/// Begins a transaction, after the topic is known by what this consumer remembers.
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
        // Each change is made once, by whoever is first.
        if let Way::Changes(change) = way.map_err(Error::of("read how repeats are known"))? {
            connection.change_way(consumer, topic, change).await?;
        }
    }
}

/// Ends the sessions that hold a lock, as those that do not give back a partition.
pub(super) async fn end_holders(connection: &Connection, class: i32, number: i32) -> Result<(), Error> {
    let who: [Parameter<'_>; 2] = [(&class, Type::INT4), (&number, Type::INT4)];
    let ended = connection.query(END_HOLDERS, &who).await;
    ended.map_err(Error::of("end the sessions that hold a lock"))?;
    Ok(())
}

/// Takes the partition by the function that consumers in other languages call, and reads what is parked.
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
        comparable,
        has_unscoped,
        marked_until: Arc::new(AtomicI64::new(0)),
    };
    let greatest = positions::greatest(connection, &tenancy).await?;
    Ok(Taken { tenancy, suspects: Suspects::new(maybe, begun), parked, next_offset, other_group, greatest })
}
