//! Waiting until the catalog shows what a transaction of the stream has changed.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::pgoutput::Relation;
use crate::postgres::{Error, Sql};
use crate::wal::Xid;

const INTERVAL: Duration = Duration::from_millis(5);
/// A synchronous standby may be missing for ever, and may be waiting for us.
const SEEN_MAX: Duration = Duration::from_secs(5);

/// Waits until others see what a transaction has done.
///
/// PostgreSQL writes a commit before others see it. A table that the transaction itself has made or altered would be described
/// as it was: without the new key, or not at all.
///
/// # Errors
/// When the server does not answer.
pub(super) async fn seen(sql: &Sql, relation: &Relation, xid: Xid) -> Result<(), Error> {
    let began = Instant::now();
    while !sql.sight().await?.sees(xid.0) {
        if began.elapsed() >= SEEN_MAX {
            let Relation { schema, table, .. } = relation;
            tracing::warn!(
                table = format!("{schema}.{table}"),
                xid = xid.0,
                "the transaction that describes a table is not seen by others yet, as when a synchronous standby is missing: \
                 if it has altered the table, its rows are sent as the table was before"
            );
            return Ok(());
        }
        sleep(INTERVAL).await;
    }
    Ok(())
}
