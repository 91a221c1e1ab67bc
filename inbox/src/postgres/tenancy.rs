use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_postgres::error::SqlState;

use super::connection::Connection;
use super::error::Error;
use super::statements::{BEGUN, END_HOLDERS, FIND, LOCK_CLASS, NEXT_EPOCH};
use crate::core::PartitionId;

/// How long the transactions of the consumer that had the partition before are waited for. After that their sessions are
/// ended: that consumer may be stopped in the middle, for ever.
const HOLDERS_END_WITHIN: &str = "5s";

/// Proof that this consumer has a partition. It is worth nothing as soon as another one takes it.
#[derive(Debug, Clone)]
pub(crate) struct Tenancy {
    pub(super) partition: i32,
    pub(super) epoch: i64,
    pub(super) consumer: Arc<str>,
}

/// Takes a partition from whoever had it. With it come the events at which handlers were when the process ended, by
/// offset, with how often.
pub(crate) async fn take(
    connection: &Connection,
    consumer: &Arc<str>,
    id: &PartitionId,
) -> Result<(Tenancy, BTreeMap<i64, u32>), Error> {
    let client = &connection.client;
    let names: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&&**consumer, &&*id.topic, &id.partition];
    let row = client.query_one(FIND, &names).await.map_err(Error::of("find the partition"))?;
    let partition: i32 = row.try_get(0).map_err(Error::of("find the partition"))?;
    if let Err(error) = lock(connection, partition).await {
        client.batch_execute("ROLLBACK").await.map_err(Error::of("roll back"))?;
        if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
            let who: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&LOCK_CLASS, &partition];
            client
                .execute(END_HOLDERS, &who)
                .await
                .map_err(Error::of("end the sessions of the last holder"))?;
        }
        return Err(Error::of("lock the partition")(error));
    }
    let taken = read(connection, consumer, partition).await;
    let end = if taken.is_ok() { "COMMIT" } else { "ROLLBACK" };
    client.batch_execute(end).await.map_err(Error::of("take the partition"))?;
    taken
}

/// Waits for the transactions of the last holder.
async fn lock(connection: &Connection, partition: i32) -> Result<(), tokio_postgres::Error> {
    let sql = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '{HOLDERS_END_WITHIN}'; \
         SELECT pg_advisory_xact_lock({LOCK_CLASS}, {partition})"
    );
    connection.client.batch_execute(&sql).await
}

async fn read(
    connection: &Connection,
    consumer: &Arc<str>,
    partition: i32,
) -> Result<(Tenancy, BTreeMap<i64, u32>), Error> {
    let doing = "take the partition";
    let client = &connection.client;
    let row = client.query_one(NEXT_EPOCH, &[&partition]).await.map_err(Error::of(doing))?;
    let epoch: i64 = row.try_get(0).map_err(Error::of(doing))?;
    let mut begun = BTreeMap::new();
    for row in client.query(BEGUN, &[&partition]).await.map_err(Error::of(doing))? {
        let offset: i64 = row.try_get(0).map_err(Error::of(doing))?;
        let count: i32 = row.try_get(1).map_err(Error::of(doing))?;
        begun.insert(offset, u32::try_from(count).unwrap_or_default());
    }
    Ok((Tenancy { partition, epoch, consumer: Arc::clone(consumer) }, begun))
}
