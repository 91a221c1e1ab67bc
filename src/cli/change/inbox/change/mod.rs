//! Changes of the rows of a partition while consumers run.
//!
//! The exclusive lock of a partition waits until no transaction of a consumer is open in it. A new epoch makes what a consumer has in
//! memory worthless: nothing that it begins later is committed before it has taken the partition again and read what is parked.
//! `release` needs none: a consumer reads the table again every 5 s while a key waits behind a dead letter.

mod changed;
mod forget;
mod release;
mod report;
mod retry;
mod sequence;
mod skip;

pub(super) use forget::forget;
pub(super) use release::release;
pub(super) use retry::retry;
pub(super) use skip::skip;

use std::collections::BTreeMap;

use crate::cli::change::inbox::error::InboxError;
use crate::cli::change::inbox::parked::{Parked, select};
use crate::cli::change::inbox::place::Selection;
use crate::cli::change::inbox::tables::{Tables, get};

/// A handler may hold the lock for longer. It is not ended: the operator may.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '5s'";
const TRY_LOCK: &str = "SELECT pg_try_advisory_xact_lock(inbox_lock_class(), $1)";
const LOCK: &str = "SELECT pg_advisory_xact_lock(inbox_lock_class(), $1)";
const HOLDERS: &str = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid() \
     AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
     AND classid = (inbox_lock_class()::bigint & 4294967295)::oid AND objid = ($1::int::bigint & 4294967295)::oid ORDER BY pid";
const RAISE_EPOCH: &str = "UPDATE inbox_partition SET epoch = epoch + 1 WHERE id = $1";
/// An event is parked no longer.
const UNPARK: &str = "DELETE FROM inbox_parked WHERE partition_id = $1 AND \"offset\" = $2";
const LOCK_NOT_AVAILABLE: &str = "55P03";

/// State of a partition before the command acquired it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Unused,
    /// A transaction of a consumer was open.
    InUse,
}

/// Begins a transaction with the partition of an event for itself.
async fn begin(tables: &Tables, event: &Parked) -> Result<Before, InboxError> {
    tables.execute(BEGIN).await?;
    if let Some(row) = tables.change(TRY_LOCK, &[&event.partition_id]).await?.first()
        && get(row, 0)?
    {
        return Ok(Before::Unused);
    }
    match tables.change(LOCK, &[&event.partition_id]).await {
        Ok(_) => Ok(Before::InUse),
        Err(error) if error.sqlstate() == Some(LOCK_NOT_AVAILABLE) => {
            tables.execute("ROLLBACK").await?;
            let rows = tables.query(HOLDERS, &[&event.partition_id]).await?;
            let pids = rows.iter().map(|row| get(row, 0)).collect::<Result<_, _>>()?;
            let (topic, partition) = (event.place.topic.clone(), event.place.partition);
            Err(InboxError::Busy { topic, partition, pids })
        }
        Err(error) => Err(error.into()),
    }
}

/// Raises the epoch, so that the consumer acquires the partition again.
async fn fence(tables: &Tables, partition_id: i32) -> Result<(), InboxError> {
    tables.change(RAISE_EPOCH, &[&partition_id]).await?;
    Ok(())
}

async fn commit(tables: &Tables) -> Result<(), InboxError> {
    Ok(tables.execute("COMMIT").await?)
}

/// Reads the selected events of a partition again, with the lock.
async fn reread(
    tables: &Tables,
    consumer: &str,
    selection: &Selection,
    partition_id: i32,
) -> Result<Vec<Parked>, InboxError> {
    Ok(select(tables, consumer, selection, Some(partition_id)).await?)
}

/// Returns the first of these events of each partition.
fn partitions(events: &[Parked]) -> Vec<&Parked> {
    let mut first = BTreeMap::new();
    for event in events {
        first.entry(event.partition_id).or_insert(event);
    }
    first.into_values().collect()
}

/// Fails when there is none.
async fn require(tables: &Tables, consumer: &str, selection: &Selection) -> Result<Vec<Parked>, InboxError> {
    let events = select(tables, consumer, selection, None).await?;
    if events.is_empty() {
        tables.check_consumer(consumer).await?;
        return Err(InboxError::NotParked { consumer: consumer.to_owned(), what: selection.to_string() });
    }
    Ok(events)
}
