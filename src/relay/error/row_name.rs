//! Names of rows in errors.

use crate::wal::Xid;

/// The event id and the transaction of a row that cannot be sent, by which it is found in its table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowName {
    /// The event's id; none for a change event, and where the row has none.
    pub event_id: Option<String>,
    /// The transaction that wrote it; none in a snapshot.
    pub xid: Option<Xid>,
}

impl RowName {
    pub(super) fn event(&self) -> String {
        self.event_id.as_ref().map(|id| format!(" with event id {id:?}")).unwrap_or_default()
    }

    pub(super) fn transaction(&self) -> String {
        self.xid.map(|xid| format!(" (xid {xid})")).unwrap_or_default()
    }
}
