//! Periodic `heartbeat.action.query`.

use std::sync::Arc;

use tokio::time;
use tokio_util::sync::CancellationToken;

use crate::error::chain;
use crate::postgres::{Sql, TlsSetup};
use crate::relay::capture::preflight::application;
use crate::relay::parts::RelayParts;

/// Runs `heartbeat.action.query` at each interval, on a connection of its own: a slow one must not hold up the catalog's.
pub(in crate::relay) async fn run(parts: Arc<RelayParts>, tls: TlsSetup, stop: CancellationToken) {
    let Some(options) = &parts.relay.heartbeat else { return };
    let Some(query) = &options.query else { return };
    let mut connection = None;
    loop {
        if stop.run_until_cancelled(time::sleep(options.interval)).await.is_none() {
            return;
        }
        let Some(acted) = stop.run_until_cancelled(act_once(&parts, &tls, query, &mut connection)).await
        else {
            return;
        };
        if let Err(error) = acted {
            connection = None;
            tracing::warn!(
                error = chain(&error),
                "heartbeat.action.query failed; retrying at the next heartbeat"
            );
        }
    }
}

async fn act_once(
    parts: &RelayParts,
    tls: &TlsSetup,
    query: &str,
    connection: &mut Option<Sql>,
) -> Result<(), crate::postgres::Error> {
    let sql = match connection.take().filter(|sql| !sql.is_closed()) {
        Some(sql) => sql,
        None => {
            let sql = Sql::open(&parts.postgres.server, tls, &application(&parts.postgres)).await?;
            sql.serve_user().await?;
            sql
        }
    };
    connection.insert(sql).execute("running heartbeat.action.query", query).await
}
