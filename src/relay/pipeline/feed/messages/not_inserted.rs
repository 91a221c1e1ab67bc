//! Changes of an outbox that are no inserts.

use crate::kafka::Transport;
use crate::outbox::InvalidOperation;
use crate::relay::capture::route::Bound;
use crate::relay::capture::table::Table;
use crate::relay::error::Error;
use crate::relay::pipeline::feed::Feed;
use crate::telemetry::Change;
use crate::transaction::EventPosition;
use crate::wal::{Lsn, Oid};

impl<T: Transport> Feed<'_, T> {
    /// Handles an update of an outbox row, which makes no event.
    pub(in crate::relay::pipeline::feed) fn update(&mut self, lsn: Lsn, relation: Oid) -> Result<(), Error> {
        let EventPosition { commit_lsn, .. } = self.stream_event(lsn)?.position;
        self.place.assembler.advance(lsn);
        let table = match self.tables.described.get(relation)? {
            Table::Captured(Bound::Outbox(table)) => table,
            Table::Captured(Bound::Changes(_)) => return Ok(()),
            Table::NotCaptured(rows) => {
                rows.count();
                return Ok(());
            }
        };
        self.out.metrics.changes(Change::Update, 1);
        self.tables.passed.skip(self.out.metrics, relation, table.name(), "update");
        if self.skipped.update {
            return Ok(());
        }
        let name = table.name();
        match table.on_update() {
            InvalidOperation::Warn => {
                tracing::warn!(table = name, %commit_lsn, "an outbox row was updated: not sent");
            }
            InvalidOperation::Error => {
                tracing::error!(table = name, %commit_lsn, "an outbox row was updated: not sent");
            }
            InvalidOperation::Fatal => return Err(Error::Updated { table: name.to_owned(), commit_lsn }),
        }
        Ok(())
    }

    /// Skips a change that makes no event.
    pub(in crate::relay::pipeline::feed) fn pass(
        &mut self,
        relation: Oid,
        change: Change,
        reason: &'static str,
    ) -> Result<(), Error> {
        self.place.assembler.current()?;
        match self.tables.described.get(relation)? {
            Table::Captured(table) => {
                self.out.metrics.changes(change, 1);
                self.tables.passed.skip(self.out.metrics, relation, table.name(), reason);
            }
            Table::NotCaptured(rows) => rows.count(),
        }
        Ok(())
    }
}
