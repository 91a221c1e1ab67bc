//! Tables that are captured by identity, as far as the oracles know.

use std::collections::{BTreeMap, BTreeSet};

use super::truth::Row;
use crate::relay::simulation::postgres::catalog::{CapturedBy, Catalog, CatalogTable, Columns};
use crate::wal::Oid;

/// Verdict on a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay::simulation) enum Answer {
    /// To be sent: it is a message, or the relay must know that its table is captured.
    Owed,
    /// Need not be sent, and was not reported.
    Unseen,
    /// Not captured, which the relay has reported.
    NotCaptured,
}

/// Object ids.
#[derive(Debug, Default)]
pub(in crate::relay::simulation) struct Identities {
    /// Tables that were to be captured at some time, or were partitions of one then.
    ever: BTreeSet<Oid>,
    /// Tables that each process has captured, or could know of its predecessors.
    known: BTreeMap<usize, BTreeSet<Oid>>,
    /// The process that has the slot.
    pub(in crate::relay::simulation) streaming: usize,
    /// Tables that had columns at some time that the router cannot use.
    unusable: BTreeSet<Oid>,
    /// A table was dropped or detached, or may have been.
    lost_tables: bool,
    there: Vec<(Oid, Option<Oid>)>,
    /// Relations whose rows a relay has reported as not sent.
    left_out: BTreeSet<Oid>,
}

impl Identities {
    pub(in crate::relay::simulation) fn altered(&mut self, catalog: &Catalog, by: CapturedBy) {
        for table in &catalog.tables {
            let root = table.root.and_then(|root| catalog.get(root));
            // A table that was captured is so by any name, and with it what is attached to it then.
            let was_captured = table.root.is_some_and(|root| self.ever.contains(&root));
            if table.is_captured(by) || was_captured || root.is_some_and(|root| root.is_captured(by)) {
                self.ever.insert(table.oid);
            }
            if !table.columns.is_outbox() {
                self.unusable.insert(table.oid);
            }
        }
        let there: Vec<_> = catalog.tables.iter().map(|table| (table.oid, table.root)).collect();
        self.lost_tables |=
            self.there.iter().any(|table| !there.contains(table)) || self.is_ambiguous(catalog);
        self.there = there;
    }

    /// Returns whether a captured table had columns that the router cannot use.
    pub(in crate::relay::simulation) fn lost_columns(&self) -> bool {
        self.ever.iter().any(|table| self.unusable.contains(table))
    }

    /// Returns whether no relay can know of some table whether it was a partition of a captured one.
    pub(in crate::relay::simulation) const fn lost_tables(&self) -> bool {
        self.lost_tables
    }

    pub(in crate::relay::simulation) const fn streams(&mut self, process: usize) {
        self.streaming = process;
    }

    /// Returns whether a table looks like a partition of a captured one, and is none.
    fn is_ambiguous(&self, catalog: &Catalog) -> bool {
        self.has_alike(catalog, &self.ever)
    }

    /// Returns whether a table looks so to a process, which cannot know it: it was captured and had another name before any relay ran.
    pub(in crate::relay::simulation) fn is_unknown_to(&self, process: usize, catalog: &Catalog) -> bool {
        self.known.get(&process).is_none_or(|known| self.has_alike(catalog, known))
    }

    fn has_alike(&self, catalog: &Catalog, known: &BTreeSet<Oid>) -> bool {
        let tables = &catalog.tables;
        let has_partitions = tables.iter().any(|table| table.partitioned && self.ever.contains(&table.oid));
        let is_alike = |table: &CatalogTable| table.root.is_none() && table.columns != Columns::Orders;
        has_partitions && tables.iter().any(|table| is_alike(table) && !known.contains(&table.oid))
    }

    pub(in crate::relay::simulation) fn know(
        &mut self,
        process: usize,
        tables: impl IntoIterator<Item = Oid>,
    ) {
        self.known.entry(process).or_default().extend(tables);
    }

    /// Records that a process reports rows of a relation as not sent. When it knows the relation, or what
    /// that is a partition of, they are owed all the same.
    pub(in crate::relay::simulation) fn leave_out(
        &mut self,
        process: usize,
        relation: Oid,
        root: Option<Oid>,
    ) {
        let known = self.known.get(&process);
        let is_known = |oid| known.is_some_and(|known| known.contains(&oid));
        if !is_known(relation) && !root.is_some_and(is_known) {
            self.left_out.insert(relation);
        }
    }

    pub(super) fn was_left_out(&self, row: Row) -> bool {
        self.left_out.contains(&row.relation)
    }

    /// Returns whether a row may be sent. A table that is gone may be mistaken for a former partition.
    pub(super) fn may_be_sent(&self, row: Row) -> bool {
        let gone = !self.there.iter().any(|(table, _)| *table == row.relation);
        gone || self.ever.contains(&row.relation) || self.ever.contains(&row.root)
    }

    /// Returns the verdict on a row that is confirmed and not written.
    pub(in crate::relay::simulation) fn verdict(&self, row: Option<Row>) -> Answer {
        let Some(row) = row else { return Answer::Owed };
        let known = self.known.get(&self.streaming);
        let by_identity = |oid| known.is_some_and(|known| known.contains(&oid));
        if row.named {
            Answer::Owed
        } else if self.left_out.contains(&row.relation) {
            // Perhaps it was captured later, by another name.
            Answer::NotCaptured
        } else if by_identity(row.relation) || by_identity(row.root) {
            Answer::Owed
        } else {
            Answer::Unseen
        }
    }
}
