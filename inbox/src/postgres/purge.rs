use std::time::Duration;

use super::connection::Connection;
use super::error::Error;
use super::statements::{PURGE, PURGED_MAX};

/// Forgets the events that were done longer ago than `window`, so many at a time that nobody waits for long; how many.
pub(crate) async fn purge(connection: &Connection, consumer: &str, window: Duration) -> Result<u64, Error> {
    let mut purged = 0;
    loop {
        let seconds = window.as_secs_f64();
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&consumer, &seconds, &PURGED_MAX];
        let count = connection.client.execute(PURGE, &parameters).await;
        let count = count.map_err(Error::of("forget old events"))?;
        purged += count;
        if count < PURGED_MAX.unsigned_abs() {
            return Ok(purged);
        }
    }
}
