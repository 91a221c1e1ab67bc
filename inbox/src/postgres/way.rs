//! Way in which the repeats of a topic are recognized. It is the same for all processes that consume the topic by one name.
//!
//! A consumer that takes a partition holds a shared advisory lock of the topic meanwhile, and one that changes the way holds the exclusive
//! lock. So no partition is taken with a way that is no longer that of the topic.

use std::sync::{Arc, OnceLock};

use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::connection::Connection;
use super::error::{DriverError, Error};
use super::session::Parameter;
use super::statements::{
    BY_IDS, END_EPOCHS, HAS_POSITIONS, MOVE_TO_IDS, NEW_TOPIC, PARTITIONS, TOPIC, TOPIC_LOCK_CLASS,
};
use super::tenancy::{HOLDERS_END_WITHIN, end_holders};
use crate::event::murmur2;

/// Data that a consumer remembers of the events that are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remembers {
    Ids,
    Numbers,
    /// Positions, with the number of the topic's partitions, as far as this consumer knows.
    #[cfg_attr(not(feature = "position"), allow(dead_code, reason = "the feature is what uses it"))]
    Positions(i32),
}

/// Data by which the positions of a topic are comparable.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "position"), allow(dead_code, reason = "the feature is what uses it"))]
pub(crate) struct Comparable {
    /// Number of partitions among which the keys distribute the events.
    pub(crate) partitions: i32,
    /// Database that the events come from, if it is known.
    pub(crate) source: Arc<OnceLock<String>>,
}

/// Way in which repeats are recognized.
#[derive(Debug)]
pub(super) enum Way {
    /// By positions, or by other data if these are not comparable.
    Known(Option<Comparable>),
    /// The way of the topic has to change first.
    Changes(Change),
}

/// Change of all partitions of a topic.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change {
    /// Positions are compared from now on, of a topic with this number of partitions.
    ToPositions(i32),
    /// Ids are looked up from now on, for this reason.
    ToIds(&'static str),
}

/// Begins a transaction in which the way does not change, and reads the way.
pub(super) async fn begin(
    connection: &Connection,
    consumer: &str,
    topic: &str,
    remembers: Remembers,
) -> Result<Way, DriverError> {
    connection.batch(&begin_locked("pg_advisory_xact_lock_shared", consumer, topic)).await?;
    let which: [Parameter<'_>; 2] = [(&consumer, Type::TEXT), (&topic, Type::TEXT)];
    let row = match remembers {
        Remembers::Numbers => return Ok(Way::Known(None)),
        Remembers::Ids | Remembers::Positions(_) => connection.query(TOPIC, &which).await?.pop(),
    };
    let is_by_ids =
        row.as_ref().map(|row| row.get::<Option<String>>(1)).transpose()?.map(|why| why.is_some());
    Ok(match (remembers, row, is_by_ids) {
        (Remembers::Positions(count), None, _) => Way::Changes(Change::ToPositions(count)),
        (Remembers::Positions(count), Some(row), Some(false)) => {
            let partitions: i32 = row.get(0)?;
            // A broker may not know yet of partitions that were added.
            if partitions < count {
                return Ok(Way::Changes(Change::ToIds("partitions were added")));
            }
            let source: Option<String> = row.get(2)?;
            let source = Arc::new(source.map_or_else(OnceLock::new, OnceLock::from));
            Way::Known(Some(Comparable { partitions, source }))
        }
        (Remembers::Ids, _, is_by_ids)
            if is_by_ids == Some(false) || has_positions(connection, &which).await? =>
        {
            Way::Changes(Change::ToIds("the consumer was started so"))
        }
        _ => Way::Known(None),
    })
}

async fn has_positions(connection: &Connection, which: &[Parameter<'_>]) -> Result<bool, DriverError> {
    connection.query_one(HAS_POSITIONS, which).await?.get(0)
}

fn begin_locked(lock: &str, consumer: &str, topic: &str) -> String {
    // Another topic with the same number has to wait at times.
    let number = murmur2(format!("{consumer}/{topic}").as_bytes()).cast_signed();
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '{HOLDERS_END_WITHIN}'; \
         SELECT {lock}({TOPIC_LOCK_CLASS}, {number})"
    )
}

impl Connection {
    /// Returns the database that a topic's events come from: `source`, unless another one was stored first. Returns `None` if the topic is
    /// not read by position.
    #[cfg(feature = "position")]
    pub(crate) async fn source(
        &self,
        consumer: &str,
        topic: &str,
        source: &str,
    ) -> Result<Option<String>, Error> {
        let doing = "read where a topic comes from";
        let parameters: [Parameter<'_>; 3] =
            [(&consumer, Type::TEXT), (&topic, Type::TEXT), (&source, Type::TEXT)];
        let row = self.query(super::statements::SOURCE, &parameters).await.map_err(Error::of(doing))?.pop();
        row.map(|row| row.get(0)).transpose().map_err(Error::of(doing))
    }

    /// Changes the way in which the repeats of a topic are recognized. All consumers lose their partitions of the topic.
    pub(crate) async fn change_way(&self, consumer: &str, topic: &str, change: Change) -> Result<(), Error> {
        let doing = "change how repeats are known";
        let mut locking: Option<(i32, i32)> = None;
        let changed = self.change(consumer, topic, change, &mut locking).await;
        match changed {
            Ok(is_first) => {
                self.batch("COMMIT").await.map_err(Error::of(doing))?;
                if let (true, Change::ToIds(why)) = (is_first, change) {
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
                    && let Some((lock_class, partition)) = locking
                {
                    end_holders(self, lock_class, partition).await?;
                }
                Err(Error::of(doing)(error))
            }
        }
    }

    /// Makes the change in a transaction that is not committed yet. `locking` is set to the partition that the transaction waits for.
    /// Returns `false` if another consumer has already made the change.
    async fn change(
        &self,
        consumer: &str,
        topic: &str,
        change: Change,
        locking: &mut Option<(i32, i32)>,
    ) -> Result<bool, DriverError> {
        self.batch(&begin_locked("pg_advisory_xact_lock", consumer, topic)).await?;
        let which: [Parameter<'_>; 2] = [(&consumer, Type::TEXT), (&topic, Type::TEXT)];
        let is_first = match change {
            Change::ToPositions(count) => {
                let new: [Parameter<'_>; 3] =
                    [(&consumer, Type::TEXT), (&topic, Type::TEXT), (&count, Type::INT4)];
                !self.query(NEW_TOPIC, &new).await?.is_empty()
            }
            Change::ToIds(why) => {
                let reason: [Parameter<'_>; 3] =
                    [(&consumer, Type::TEXT), (&topic, Type::TEXT), (&why, Type::TEXT)];
                !self.query(BY_IDS, &reason).await?.is_empty() || has_positions(self, &which).await?
            }
        };
        if !is_first {
            return Ok(false);
        }
        for row in self.query(PARTITIONS, &which).await? {
            let (partition, lock_class): (i32, i32) = (row.get(0)?, row.get(1)?);
            *locking = Some((lock_class, partition));
            self.batch(&format!("SELECT pg_advisory_xact_lock({lock_class}, {partition})")).await?;
        }
        self.query(END_EPOCHS, &which).await?;
        if let Change::ToIds(_) = change {
            self.query(MOVE_TO_IDS, &which).await?;
        }
        Ok(true)
    }
}
