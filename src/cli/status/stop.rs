use std::sync::Arc;
use std::time::Duration;

use super::direct::Direct;
use crate::cli::args::ConfigArgs;
use crate::cli::assemble::assemble;
use crate::cli::say;
use crate::error::{Diagnose as _, chain};
use crate::postgres::SnapshotMode;
use crate::relay::{RelayParts, kept_position};

/// The patience with Kafka: `status` is about the slot.
const PATIENCE: Duration = Duration::from_secs(3);

/// Adds to a slot that nobody reads the stop that the position in Kafka remembers. A configuration that `run` would refuse has none.
pub(super) async fn add_remembered(direct: &mut Direct, config: &ConfigArgs) {
    let Some(parts) = assemble(config).ok().map(|assembly| Arc::new(assembly.parts)) else { return };
    match find(direct, parts).await {
        Ok(Some((stopped, cure))) => {
            direct.stopped = Some(stopped);
            direct.cure = cure.or(direct.cure.take());
        }
        Ok(None) => {}
        Err(reason) => say(&format!(
            "it is not known whether the last run has ended for rows that are not sent: {reason}"
        )),
    }
}

async fn find(direct: &Direct, parts: Arc<RelayParts>) -> Result<Option<(String, Option<String>)>, String> {
    let kept = kept_position(Arc::clone(&parts), PATIENCE).await.map_err(|error| chain(&error))?;
    let confirmed = direct.confirmed.as_deref().and_then(|lsn| lsn.parse().ok());
    let (accept, always) =
        (parts.relay.position.accept, parts.postgres.snapshot.mode == SnapshotMode::Always);
    let stop = kept.and_then(|kept| kept.stop(confirmed, accept, always));
    Ok(stop.map(|stop| (stop.to_string(), stop.cure())))
}
