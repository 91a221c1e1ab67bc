//! Deletion of old events.

use std::time::Duration;

use tokio_postgres::types::Type;

use super::connection::Connection;
use super::error::Error;
use super::session::Parameter;
use super::statements::{PURGE, PURGE_DONE, PURGED_MAX};

/// Deletes the events that were done longer ago than `window`, in batches that are small enough not to block other statements for long.
/// Returns the number of deleted rows.
pub(crate) async fn purge(connection: &Connection, consumer: &str, window: Duration) -> Result<u64, Error> {
    let by_id = purge_with(PURGE, connection, consumer, window).await?;
    Ok(by_id + purge_with(PURGE_DONE, connection, consumer, window).await?)
}

async fn purge_with(
    sql: &'static str,
    connection: &Connection,
    consumer: &str,
    window: Duration,
) -> Result<u64, Error> {
    let mut purged = 0;
    loop {
        let seconds = window.as_secs_f64();
        let parameters: [Parameter<'_>; 3] =
            [(&consumer, Type::TEXT), (&seconds, Type::FLOAT8), (&PURGED_MAX, Type::INT8)];
        let deleted = connection.query_one(sql, &parameters).await;
        let deleted = deleted.and_then(|row| row.get::<i64>(0)).map_err(Error::of("forget old events"))?;
        let count = deleted.unsigned_abs();
        purged += count;
        if count < PURGED_MAX.unsigned_abs() {
            return Ok(purged);
        }
    }
}
