//! Incremental snapshots that a start continues: outboxd's own, or those that Debezium had not finished.

use super::order::Found;
use super::slot_start::Opening;
use crate::relay::origin::Origin;
use crate::relay::progress::comparison::StoredSnapshots;
use crate::signal::{Checkpoint, Collection, StoredCheckpoint};
use crate::source_offset::{SourceOffset, UnreadTable};

impl Opening<'_> {
    /// Returns those of the position, unless Debezium has used the slot since and has left one unfinished.
    pub(in crate::relay) fn snapshots_left(
        self,
        found: &mut Found,
        origin: &Origin,
    ) -> Option<StoredSnapshots> {
        let kept = found.snapshots.take();
        let Some(stored) = found.stored.as_ref().filter(|stored| is_newer(stored, kept.as_ref())) else {
            return kept;
        };
        let tables: Vec<_> = stored.unread.iter().map(|table| table.name.as_str()).collect();
        let tables = tables.join(", ");
        if !self.parts.relay.signals.is_on() {
            tracing::warn!(
                tables,
                "Debezium had not finished an incremental snapshot of these tables, and outboxd cannot \
                 resume it without signals. Set signal.data.collection, and send the signal \
                 execute-snapshot again"
            );
            return kept;
        }
        tracing::info!(
            tables,
            "Debezium had not finished an incremental snapshot of these tables: resuming it, each table \
             from its beginning"
        );
        let state = Checkpoint::of(stored.unread.iter().cloned().map(collection));
        // The signals that Debezium has heeded come again when the slot stands before them.
        let heeded = stored.last_commit().unwrap_or_default();
        Some(StoredSnapshots { origin: origin.clone(), kept: StoredCheckpoint { heeded, state } })
    }
}

fn is_newer(stored: &SourceOffset, kept: Option<&StoredSnapshots>) -> bool {
    !stored.unread.is_empty() && kept.is_none_or(|kept| stored.furthest() > kept.kept.heeded)
}

fn collection(UnreadTable { name, filter, surrogate_key, signal }: UnreadTable) -> Collection {
    Collection { table: name, filter, surrogate_key, correlation: signal }
}
