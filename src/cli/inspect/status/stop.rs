//! Reasons of a stop, stored in Kafka.

use std::sync::Arc;
use std::time::Duration;

use super::direct::{APPLICATION, Direct};
use super::error::StatusError;
use crate::cli::args::ConfigArgs;
use crate::cli::print_message;
use crate::cli::run::assemble::assemble;
use crate::cli::shell::next_start::next_start;
use crate::cli::shell::sql::open;
use crate::error::{Diagnose as _, chain};
use crate::postgres;
use crate::relay::{Phase, RelayParts, stored_position};
use crate::wal::Oid;

/// The patience with Kafka: `status` is about the slot.
const PATIENCE: Duration = Duration::from_secs(3);

/// Adds the stop that is stored with the position in Kafka to a slot without a reader. Prints the reason if it cannot be read.
pub(super) async fn add_remembered(direct: &mut Direct, config: &ConfigArgs) {
    let found = match assemble(config) {
        Ok(assembly) => find(direct, Arc::new(assembly.parts)).await,
        Err(error) => Err(format!("run refuses this configuration: {}", chain(&error))),
    };
    match found {
        Ok(Some((stopped, fix))) => {
            direct.stopped = Some(stopped);
            direct.fix = fix.or(direct.fix.take());
        }
        Ok(None) => {}
        Err(reason) => print_message(&format!(
            "cannot read whether the last run ended because of rows that are not sent: {reason}"
        )),
    }
}

/// Adds the next start's action to a slot that does not exist.
pub(super) async fn without_slot(slot: String, config: &ConfigArgs) -> StatusError {
    let asked = async {
        let parts = Arc::new(assemble(config).ok()?.parts);
        let sql = open(&parts.postgres.server, APPLICATION).await.ok()?;
        Some(next_start(&parts, &sql).await)
    };
    let (next, fix) = asked.await.unzip();
    StatusError::NoSlot { slot, next, fix: fix.flatten() }
}

async fn find(direct: &Direct, parts: Arc<RelayParts>) -> Result<Option<(String, Option<String>)>, String> {
    let kept = stored_position(Arc::clone(&parts), PATIENCE).await.map_err(|error| chain(&error))?;
    let Some(kept) = kept.filter(|kept| kept.phase == Phase::Streaming) else { return Ok(None) };
    // A database that was created again under its name is a new one.
    if kept.is_of_dropped(database(&parts).await.map_err(|error| chain(&error))?) {
        return Ok(None);
    }
    let confirmed = direct.confirmed.as_deref().and_then(|lsn| lsn.parse().ok());
    let stop = kept.stop(confirmed, parts.relay.position.accept, parts.rows_at_each_start());
    Ok(stop.map(|stop| (stop.to_string(), stop.fix())))
}

async fn database(parts: &RelayParts) -> Result<Oid, postgres::Error> {
    Ok(open(&parts.postgres.server, APPLICATION).await?.server().await?.database)
}
