//! Suspicions that rows are missing in the stream.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::identity::CapturedTable;
use crate::error::in_commands;
use crate::wal::{Lsn, Oid};

/// Reason to suspect that rows of a captured table are missing in the stream. It is stored with the position, until a snapshot has sent
/// the rows of the table, or the operator has accepted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::relay) struct Suspicion {
    cause: SuspicionCause,
    /// End of the WAL when it was found. With this value `outboxd.position.accept` settles it.
    pub(in crate::relay) lsn: Lsn,
}

/// Change of a table that the catalog shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::relay) enum SuspicionCause {
    /// ALTER TABLE has rewritten the table, which may have been unlogged meanwhile.
    Rewritten,
    /// A new table has its name, and was added to the publication later.
    CreatedAgain,
    /// The publication was changed and changed back while no outboxd ran.
    Unpublished,
    /// The slot was lost, and the snapshot that followed did not have all rows of the table.
    SlotLost,
    /// One that a newer version of outboxd has stored: it must not be forgotten.
    #[serde(other)]
    Other,
}

/// Settings with which a snapshot has all rows of all captured tables.
const WHOLE_SNAPSHOT: &str = " -X snapshot.include.collection.list= -X snapshot.select.statement.overrides=";

impl Suspicion {
    pub(in crate::relay) const fn new(cause: SuspicionCause, lsn: Lsn) -> Self {
        Self { cause, lsn }
    }

    /// Returns the warning about a table, `schema.name`.
    pub(in crate::relay) fn warning(&self, table: &str) -> String {
        let Self { cause, lsn } = self;
        let what = match cause {
            SuspicionCause::Rewritten => {
                "was rewritten by ALTER TABLE. It may have been unlogged for a moment, and rows that were written then are not in the stream"
            }
            SuspicionCause::CreatedAgain => {
                "was created again and added to the publication: rows that were written to it before that are not in the stream"
            }
            SuspicionCause::Unpublished => {
                "was taken out of the publication and added again, or the publication was changed and changed back, while outboxd did \
                 not run: rows that were written meanwhile may not be in the stream"
            }
            SuspicionCause::SlotLost => {
                "is not wholly in the snapshot that followed a lost slot, because of snapshot.include.collection.list or a statement of its own: \
                 rows that only the slot had are not in the stream"
            }
            SuspicionCause::Other => {
                "was changed, as a newer version of outboxd has found: rows that were written meanwhile may not be in the stream"
            }
        };
        format!("table {table} {what}. {}", Self::fix(*cause, *lsn))
    }

    fn fix(cause: SuspicionCause, lsn: Lsn) -> String {
        let whole = match cause {
            SuspicionCause::SlotLost => WHOLE_SNAPSHOT,
            SuspicionCause::Rewritten
            | SuspicionCause::CreatedAgain
            | SuspicionCause::Unpublished
            | SuspicionCause::Other => "",
        };
        in_commands(format!(
            "To see whether rows are missing: outboxd verify -c FILE; to send all rows that are there: start once with -X \
             snapshot.mode=always{whole}; if no row is missing: start once with -X outboxd.position.accept={lsn}"
        ))
    }
}

/// Suspicions that are not settled, each in its table. The stream need not have brought a row of that yet.
#[derive(Debug, Default)]
pub(super) struct Suspicions {
    tables: BTreeMap<Oid, (CapturedTable, Suspicion)>,
    has_changed: bool,
}

impl Suspicions {
    /// Adds one. The last one about a table replaces those before: what was checked for them does not settle it.
    pub(super) fn add(&mut self, table: CapturedTable, suspicion: Suspicion) {
        self.tables.insert(table.oid(), (table, suspicion));
        self.has_changed = true;
    }

    /// Adds one that is stored, unless this process has a later one.
    pub(super) fn recall(&mut self, table: CapturedTable, suspicion: Suspicion) {
        self.tables.entry(table.oid()).or_insert((table, suspicion));
    }

    /// Returns the suspicions with their tables.
    pub(super) fn list(&self) -> impl Iterator<Item = &(CapturedTable, Suspicion)> {
        self.tables.values()
    }

    pub(super) fn is_about(&self, oid: Oid) -> bool {
        self.tables.contains_key(&oid)
    }

    /// Settles the others, and returns whether there were any.
    pub(super) fn retain(&mut self, is_open: impl Fn(&CapturedTable, &Suspicion) -> bool) -> bool {
        let before = self.tables.len();
        self.tables.retain(|_, (table, suspicion)| is_open(table, suspicion));
        let is_less = self.tables.len() < before;
        self.has_changed |= is_less;
        is_less
    }

    /// Lets them be stored again, because something has changed that is stored with them.
    pub(super) const fn store_again(&mut self) {
        self.has_changed = true;
    }

    pub(super) const fn take_changed(&mut self) -> bool {
        std::mem::replace(&mut self.has_changed, false)
    }
}
