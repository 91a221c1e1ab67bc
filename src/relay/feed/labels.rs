//! A value that an enum was given since its table was described: the table is described anew, once for each value.

use std::collections::{HashMap, HashSet};

use crate::change::{ChangeTable, RowChange};
use crate::pgoutput::Relation;
use crate::wal::Oid;

/// How many values are remembered. Beyond that the catalog may be asked for one again.
const LABELS_MAX: usize = 10_000;

/// What relations were described as, and for which values the catalog was asked again.
#[derive(Debug, Default)]
pub(super) struct AskedLabels {
    relations: HashMap<Oid, Relation>,
    asked: HashSet<(Oid, String, Vec<u8>)>,
}

impl AskedLabels {
    /// Rows of this relation follow.
    pub(super) fn describe(&mut self, relation: &Relation) {
        self.relations.insert(relation.oid, relation.clone());
    }

    /// The relation, when its table must be described anew before a change of it is taken.
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
        tracing::info!(table = table.name(), column, "an enum has a new value: the table is described anew");
        Some(Box::new(described.clone()))
    }
}
