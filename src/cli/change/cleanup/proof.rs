//! Proof of `outboxd cleanup` that rows are sent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::error::CleanupError;
use crate::cleanup::{Horizon, captured_archive, doubts};
use crate::cli::shell::next_start::next_start;
use crate::cli::shell::progress::Progress;
use crate::postgres::{Sql, TableFacts};
use crate::relay::{Capture, Phase, RelayParts, RowsAtStart, stored_position};
use crate::wal::Lsn;

/// Interval between two queries for the slot.
const INTERVAL: Duration = Duration::from_millis(200);
const POSITION_PATIENCE: Duration = Duration::from_secs(10);

/// Returns the captured tables, when the stream has all their rows.
pub(super) async fn tables(sql: &Sql, parts: &RelayParts) -> Result<Vec<TableFacts>, CleanupError> {
    let capture = Capture::find(sql, parts).await.map_err(|error| CleanupError::Relay(Box::new(error)))?;
    if let Some(source) = captured_archive(parts.relay.cleanup.archive.as_ref(), &capture.tables) {
        return Err(CleanupError::Captured(source));
    }
    for table in &capture.tables {
        let doubts = doubts(sql, &parts.postgres.publication.name, table).await?;
        if let Some(source) = doubts.into_iter().next() {
            return Err(CleanupError::Doubtful { table: format!("{}.{}", table.schema, table.name), source });
        }
    }
    Ok(capture.tables)
}

/// Returns a horizon whose rows are all sent.
pub(super) async fn horizon(
    sql: &Sql,
    parts: &Arc<RelayParts>,
    seconds: u64,
    progress: &Progress,
) -> Result<Horizon, CleanupError> {
    let slot = parts.postgres.slot.name.to_string();
    let horizon = Horizon::take(sql).await?;
    let until = Instant::now() + Duration::from_secs(seconds);
    let confirmed = loop {
        let facts = sql.slot_named(&slot).await?;
        let Some(facts) = facts else {
            let (next, fix) = next_start(parts, sql).await;
            return Err(CleanupError::NoSlot { slot, next, fix });
        };
        if let Some(reason) = facts.invalidation() {
            return Err(parts.postgres.slot.lost(&reason).into());
        }
        let confirmed = facts.confirmed_flush_lsn.unwrap_or(Lsn::ZERO);
        if horizon.is_sent(confirmed, None) {
            break confirmed;
        }
        if Instant::now() >= until {
            return Err(CleanupError::Behind { slot, confirmed, wanted: horizon.lsn, seconds });
        }
        progress.waiting(&format!("waiting until slot {slot} has confirmed {}", horizon.lsn));
        sleep(INTERVAL).await;
    };
    // The publication may have lost them before the horizon was read.
    tables(sql, parts).await?;
    let Some(topic) = parts.relay.position.topic.clone() else { return Ok(horizon) };
    let kept = stored_position(Arc::clone(parts), POSITION_PATIENCE).await;
    let kept = kept.map_err(|error| CleanupError::Relay(Box::new(error)))?;
    let database = sql.server().await?.database;
    let kept = kept.filter(|kept| kept.phase == Phase::Streaming && !kept.is_of_dropped(database));
    if let Some(stop) = kept.as_ref().and_then(|kept| kept.stop(Some(confirmed), None, RowsAtStart::None)) {
        return Err(stop.into());
    }
    if let Some(warning) = kept.as_ref().and_then(|kept| kept.suspicions.first()) {
        return Err(CleanupError::Suspected { warning: warning.clone() });
    }
    match kept {
        None => Err(CleanupError::NoPosition { topic }),
        Some(kept) if !horizon.is_sent(confirmed, Some(kept.lsn)) => {
            Err(CleanupError::Moved { slot, confirmed, kept: kept.lsn })
        }
        Some(_) => Ok(horizon),
    }
}
