//! End of outboxd's last run.

use std::sync::Arc;
use std::time::Duration;

use crate::cli::change::migrate::error::MigrateError;
use crate::relay::{RelayParts, StoredPosition, stored_position};
use crate::wal::Lsn;

/// Time that Kafka may take to return outboxd's position.
const PATIENCE: Duration = Duration::from_secs(10);

/// End of outboxd's last run, according to its position in Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastRun {
    /// Everything that it sent was acknowledged and confirmed, and its offset is stored.
    Ended,
    /// The same, but the position of the slot is older: a server that crashed loses the last confirmation.
    Forgotten,
    /// Killed or failed: it may have sent events after the slot's position and its stored offset.
    Broken,
    /// No stored position, or another program has read the slot since.
    Unknown,
}

impl LastRun {
    /// Reads the position from Kafka. `confirmed` is the confirmed position of the slot.
    pub(super) async fn ask(parts: &Arc<RelayParts>, confirmed: Option<Lsn>) -> Result<Self, MigrateError> {
        let kept = stored_position(Arc::clone(parts), PATIENCE).await?;
        Ok(Self::judge(kept.as_ref(), confirmed))
    }

    fn judge(kept: Option<&StoredPosition>, confirmed: Option<Lsn>) -> Self {
        match kept {
            None => Self::Unknown,
            // outboxd never confirms beyond the position that it stores.
            Some(kept) if confirmed.is_some_and(|confirmed| confirmed > kept.lsn) => Self::Unknown,
            Some(kept) if !kept.ended => Self::Broken,
            Some(kept) if confirmed.is_none_or(|confirmed| confirmed < kept.lsn) => Self::Forgotten,
            Some(_) => Self::Ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::Phase;
    use crate::wal::Oid;

    #[test]
    fn a_position_shows_how_the_last_run_ended_unless_another_client_came_after_it() {
        let kept = |ended| {
            let mut kept = StoredPosition::of(Phase::Streaming, Lsn::new(20), Vec::new(), Oid(5));
            kept.ended = ended;
            kept
        };
        let cases = [
            (None, 10, LastRun::Unknown),
            (Some(true), 20, LastRun::Ended),
            (Some(true), 19, LastRun::Forgotten),
            (Some(false), 20, LastRun::Broken),
            (Some(false), 10, LastRun::Broken),
            (Some(true), 21, LastRun::Unknown),
            (Some(false), 21, LastRun::Unknown),
        ];
        for (ended, confirmed, expected) in cases {
            let kept = ended.map(kept);
            assert_eq!(LastRun::judge(kept.as_ref(), Some(Lsn::new(confirmed))), expected, "{kept:?}");
        }
    }
}
