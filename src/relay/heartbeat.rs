use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time;
use tokio_util::sync::CancellationToken;

use super::Error;
use super::feed::{Feed, Wish};
use super::needs::Need;
use super::preflight::application;
use super::supervisor::RelayParts;
use crate::connect::Heartbeat;
use crate::connect::converter::ConvertError;
use crate::error::chain;
use crate::postgres::{Sql, TlsSetup};

/// The session's heartbeats: one record at each interval, unless the last one is still on its way.
pub(super) struct Pulse {
    heartbeat: Heartbeat,
    interval: Duration,
    due: Instant,
}

impl Pulse {
    /// The first beat is due after one interval. `None` when none are asked for.
    pub(super) fn new(parts: &RelayParts, now: Instant) -> Option<Self> {
        let options = parts.relay.heartbeat.as_ref()?;
        let heartbeat = parts.router.heartbeat(options.topic.clone());
        Some(Self { heartbeat, interval: options.interval, due: now + options.interval })
    }

    /// When the next beat is due.
    pub(super) const fn due(&self) -> Instant {
        self.due
    }

    /// Sends a record when one is due. One that needs something first stays due.
    pub(super) fn poll(&mut self, feed: &mut Feed<'_>, now: Instant, now_ms: i64) -> Result<Wish, Error> {
        if now < self.due {
            return Ok(Wish::None);
        }
        let need = match self.heartbeat.beat(now_ms, feed.schemas()) {
            Ok(record) => feed.flight.send_heartbeat(&record)?,
            Err(ConvertError::Unregistered(registration)) => Some(Need::Schema(registration)),
            Err(error) => {
                tracing::error!(%error, "a heartbeat cannot be converted");
                None
            }
        };
        if let Some(need) = need {
            return Ok(Wish::Await(need));
        }
        self.due = now + self.interval;
        Ok(Wish::None)
    }
}

/// Runs `heartbeat.action.query` at each interval, on a connection of its own: a slow one must not hold up the catalog's.
pub(super) async fn act(parts: Arc<RelayParts>, tls: TlsSetup, stop: CancellationToken) {
    let Some(options) = &parts.relay.heartbeat else { return };
    let Some(query) = &options.query else { return };
    let mut connection = None;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = time::sleep(options.interval) => {}
        }
        let acted = tokio::select! {
            () = stop.cancelled() => return,
            acted = act_once(&parts, &tls, query, &mut connection) => acted,
        };
        if let Err(error) = acted {
            connection = None;
            tracing::warn!(
                error = chain(&error),
                "heartbeat.action.query failed; it is tried again at the next heartbeat"
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
        None => Sql::open(&parts.postgres.server, tls, &application(&parts.postgres)).await?,
    };
    connection.insert(sql).execute("running heartbeat.action.query", query).await
}
