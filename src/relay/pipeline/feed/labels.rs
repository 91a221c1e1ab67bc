//! Values that an enum was given since its table was described: the table is described again, once for each
//! value.

use std::collections::{HashMap, HashSet};

use crate::change::{ChangeTable, RowChange};
use crate::pgoutput::Relation;
use crate::wal::Oid;

/// Most values that are remembered. Beyond that the catalog may be queried for one again.
const LABELS_MAX: usize = 10_000;

/// Descriptions of relations, and the values for which the catalog was queried again.
#[derive(Debug, Default)]
pub(super) struct AskedLabels {
    relations: HashMap<Oid, Relation>,
    asked: HashSet<(Oid, String, Vec<u8>)>,
}

impl AskedLabels {
    /// Stores the description of a relation whose rows follow.
    pub(super) fn describe(&mut self, relation: &Relation) {
        self.relations.insert(relation.oid, relation.clone());
    }

    /// Returns the relation, if its table must be described again before a change of it is handled.
    pub(super) fn ask(
        &mut self,
        relation: Oid,
        table: &ChangeTable,
        change: RowChange<'_, '_>,
    ) -> Option<Box<Relation>> {
        let (column, label) = table.unknown_label(change)?;
        let described = self.relations.get(&relation)?;
        if self.asked.len() >= LABELS_MAX {
            self.asked.clear();
        }
        if !self.asked.insert((relation, column.to_owned(), label.to_vec())) {
            return None;
        }
        tracing::info!(
            table = table.name(),
            column,
            "an enum has a new value: reading the table's \
                                                      description again"
        );
        Some(Box::new(described.clone()))
    }
}
