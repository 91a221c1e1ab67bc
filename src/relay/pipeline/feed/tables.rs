//! The relations that the stream has described, and what becomes of their rows.

use std::collections::HashMap;

use super::labels::AskedLabels;
use crate::change::ChangeTable;
use crate::pgoutput::UnknownRelation;
use crate::relay::capture::captured::PassedRows;
use crate::relay::capture::route::Bound;
use crate::relay::capture::table::Table;
use crate::wal::Oid;

/// Tables of the stream.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) described: Described,
    /// Counts of the rows that are not sent.
    pub(super) passed: PassedRows,
    /// The values of enums that the catalog was asked for.
    pub(super) labels: AskedLabels,
}

/// Treatment of the rows of each described relation.
#[derive(Default)]
pub(super) struct Described(HashMap<Oid, Table>);

impl Described {
    /// Sets the treatment of a relation's rows from here on.
    pub(super) fn describe(&mut self, relation: Oid, table: Table) {
        self.0.insert(relation, table);
    }

    /// Returns the treatment of a relation's rows.
    ///
    /// # Errors
    /// When the stream has not described the relation.
    pub(super) fn get(&self, relation: Oid) -> Result<&Table, UnknownRelation> {
        self.0.get(&relation).ok_or(UnknownRelation(relation))
    }

    /// Returns the table of a relation, if each change of its rows becomes an event.
    pub(super) fn changes(&self, relation: Oid) -> Option<&ChangeTable> {
        match self.0.get(&relation) {
            Some(Table::Captured(Bound::Changes(table))) => Some(table),
            _ => None,
        }
    }
}
