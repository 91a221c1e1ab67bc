//! Waiting until the catalog and the tables show what a transaction of the stream has changed.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::postgres::Error;
use crate::relay::capture::resolver::Resolver;
use crate::wal::Xid;

const INTERVAL: Duration = Duration::from_millis(5);
/// A synchronous standby may be missing for ever, and may be waiting for us.
const SEEN_MAX: Duration = Duration::from_secs(5);

/// Waits until others see what a transaction has done, once for each.
///
/// PostgreSQL writes a commit before others see it. A table that the transaction itself has made or altered would be described
/// as it was: without the new key, or not at all; and a row that is read again would be an older one.
///
/// # Errors
/// When the server does not answer.
pub(super) async fn seen(resolver: &Resolver<'_>, transaction: Option<Xid>) -> Result<(), Error> {
    let Some(xid) = transaction.filter(|xid| resolver.seen.load(Ordering::Relaxed) != xid.0) else {
        return Ok(());
    };
    let began = Instant::now();
    while !resolver.sql.sight().await?.sees(xid.0) {
        if began.elapsed() >= SEEN_MAX {
            tracing::warn!(
                xid = xid.0,
                "a transaction of the stream is not visible to other sessions yet, as when a synchronous standby is missing: if it has \
                 altered a table, its rows are sent as the table was before, and values that are read again are the older ones"
            );
            break;
        }
        sleep(INTERVAL).await;
    }
    resolver.seen.store(xid.0, Ordering::Relaxed);
    Ok(())
}
