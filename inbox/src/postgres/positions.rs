//! Repeats that are known by an event's position.

use std::collections::HashSet;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::connection::Connection;
use super::error::{DriverError, Error};
use super::session::{Parameter, Row};
use super::statements::{
    BY_IDS, END_EPOCHS, ENTER_BY_POSITION, ENTER_FRESH, GREATEST, HAS_IDS, HAS_POSITIONS, LOCK_CLASS,
    MOVE_TO_IDS, Mark, PARTITIONS, SOURCE, TOPIC,
};
use super::tenancy::{HOLDERS_END_WITHIN, Remembers, Tenancy, end_holders};
use super::transaction::Entered;
use crate::event::Position;

/// Events for one transaction, by what their positions say.
#[derive(Debug)]
pub(crate) struct Placed<'a> {
    pub(crate) source: &'a str,
    /// The least and the greatest place of all.
    pub(crate) places: (&'a str, &'a str),
    /// The ids of events that are new for sure.
    pub(crate) fresh: Vec<&'a str>,
    /// The ids of those that are looked up, with their least and greatest place.
    pub(crate) doubtful: Vec<&'a str>,
    pub(crate) doubtful_places: (&'a str, &'a str),
}

impl Connection {
    /// Begins a transaction and remembers these events in it, in one round trip.
    pub(crate) async fn enter_by_position(
        &self,
        tenancy: &Tenancy,
        mark: Mark,
        placed: &Placed<'_>,
    ) -> Result<Entered, Error> {
        let (begin, consumer, doing) = (tenancy.begin(mark), &*tenancy.consumer, "remember the events");
        let partition: Parameter<'_> = (&tenancy.partition, Type::INT4);
        let epoch: Parameter<'_> = (&tenancy.epoch, Type::INT8);
        let fresh: Parameter<'_> = (&placed.fresh, Type::TEXT_ARRAY);
        let source: Parameter<'_> = (&placed.source, Type::TEXT);
        let (first, last) = ((&placed.places.0 as _, Type::TEXT), (&placed.places.1 as _, Type::TEXT));
        let answers = if placed.doubtful.is_empty() {
            let parameters = [partition, epoch, fresh, source, first, last];
            self.begin_and_queries(begin, [(ENTER_FRESH, &parameters)]).await
        } else {
            let parameters = [
                partition,
                epoch,
                (&consumer, Type::TEXT),
                fresh,
                (&placed.doubtful, Type::TEXT_ARRAY),
                source,
                first,
                last,
                (&placed.doubtful_places.0, Type::TEXT),
                (&placed.doubtful_places.1, Type::TEXT),
            ];
            self.begin_and_queries(begin, [(ENTER_BY_POSITION, &parameters)]).await
        };
        let [mut rows] = answers.map_err(Error::of(doing))?;
        let row = rows.pop().ok_or(DriverError::NoRow).map_err(Error::of(doing))?;
        if !row.get::<bool>(0).map_err(Error::of(doing))? {
            self.batch("ROLLBACK").await.map_err(Error::of("roll back"))?;
            return Ok(Entered::Fenced);
        }
        tenancy.set_marked(mark);
        let new: Vec<String> = if placed.doubtful.is_empty() {
            placed.fresh.iter().map(|id| (*id).to_owned()).collect()
        } else {
            row.get(1).map_err(Error::of(doing))?
        };
        Ok(Entered::New(HashSet::from_iter(new)))
    }

    /// The database that a topic's events come from. It is this one, unless another one was first.
    pub(crate) async fn source(&self, consumer: &str, topic: &str, source: &str) -> Result<String, Error> {
        let parameters: [Parameter<'_>; 3] =
            [(&consumer, Type::TEXT), (&topic, Type::TEXT), (&source, Type::TEXT)];
        let row = self.query_one(SOURCE, &parameters).await;
        row.and_then(|row| row.get(0)).map_err(Error::of("read where a topic comes from"))
    }

    /// From now on the repeats of a topic are known by id. All its partitions are taken away from whoever has them.
    pub(crate) async fn go_by_ids(&self, consumer: &str, topic: &str, why: &str) -> Result<(), Error> {
        let which: [Parameter<'_>; 2] = [(&consumer, Type::TEXT), (&topic, Type::TEXT)];
        let reason: [Parameter<'_>; 3] = [(&consumer, Type::TEXT), (&topic, Type::TEXT), (&why, Type::TEXT)];
        let doing = "go from positions to ids";
        let partitions = self.query(PARTITIONS, &which).await.map_err(Error::of(doing))?;
        let partitions = partitions.iter().map(|row| row.get(0)).collect::<Result<Vec<i32>, _>>();
        let begin =
            format!("BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '{HOLDERS_END_WITHIN}'");
        self.batch(&begin).await.map_err(Error::of(doing))?;
        let mut locking = None;
        let moved = async {
            for partition in partitions? {
                locking = Some(partition);
                self.batch(&format!("SELECT pg_advisory_xact_lock({LOCK_CLASS}, {partition})")).await?;
            }
            if self.query(BY_IDS, &reason).await?.is_empty() {
                // Another consumer was faster.
                return Ok(false);
            }
            self.query(END_EPOCHS, &which).await?;
            self.query(MOVE_TO_IDS, &which).await?;
            Ok::<_, DriverError>(true)
        };
        match moved.await {
            Ok(is_first) => {
                self.batch("COMMIT").await.map_err(Error::of(doing))?;
                if is_first {
                    tracing::error!(
                        topic,
                        why,
                        "positions do not tell repeats any more: from now on ids are asked"
                    );
                }
                Ok(())
            }
            Err(error) => {
                self.batch("ROLLBACK").await.map_err(Error::of("roll back"))?;
                if error.code().as_deref() == Some(SqlState::LOCK_NOT_AVAILABLE.code())
                    && let Some(partition) = locking
                {
                    end_holders(self, partition).await?;
                }
                Err(Error::of(doing)(error))
            }
        }
    }
}

/// Whether ids are asked, before a partition of the topic is taken. What was remembered in another way is moved.
pub(super) async fn ask_ids(
    connection: &Connection,
    consumer: &str,
    topic: &str,
    remembers: Remembers,
) -> Result<bool, Error> {
    let doing = "read how repeats are known";
    let which: [Parameter<'_>; 2] = [(&consumer, Type::TEXT), (&topic, Type::TEXT)];
    match remembers {
        Remembers::Numbers => Ok(true),
        Remembers::Ids => {
            let row = connection.query_one(HAS_POSITIONS, &which).await;
            if row.and_then(|row| row.get(0)).map_err(Error::of(doing))? {
                connection.go_by_ids(consumer, topic, "the consumer was started so").await?;
            }
            Ok(true)
        }
        Remembers::Positions(count) => {
            let now: [Parameter<'_>; 3] =
                [(&consumer, Type::TEXT), (&topic, Type::TEXT), (&count, Type::INT4)];
            let row = connection.query_one(TOPIC, &now).await.map_err(Error::of(doing))?;
            let known: i32 = row.get(0).map_err(Error::of(doing))?;
            let why: Option<String> = row.get(1).map_err(Error::of(doing))?;
            if why.is_none() && known != count {
                connection.go_by_ids(consumer, topic, "partitions were added").await?;
            }
            Ok(why.is_some() || known != count)
        }
    }
}

/// The greatest positions that are done of a partition. `None` as long as events are remembered by id.
pub(super) async fn greatest(
    connection: &Connection,
    tenancy: &Tenancy,
) -> Result<Option<Vec<Position>>, Error> {
    if tenancy.by_ids {
        return Ok(None);
    }
    let doing = "read the positions that are done";
    let consumer = &*tenancy.consumer;
    let has_ids = connection.query_one(HAS_IDS, &[(&consumer, Type::TEXT)]).await;
    if has_ids.and_then(|row| row.get(0)).map_err(Error::of(doing))? {
        return Ok(None);
    }
    let rows =
        connection.query(GREATEST, &[(&tenancy.partition, Type::INT4)]).await.map_err(Error::of(doing))?;
    let position = |row: &Row| Ok::<_, DriverError>(Position { source: row.get(0)?, place: row.get(1)? });
    rows.iter().map(position).collect::<Result<_, _>>().map(Some).map_err(Error::of(doing))
}
