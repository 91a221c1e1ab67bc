//! Verdict on the rows of a relation, from what the catalog has of it. `resolver` runs the queries.

use super::captured::{
    CaptureError, CapturedTable, NotCaptured, NotSent, Noted, PresentTable, Rules, Verdict,
    excluded_by_predicate, renamed,
};
use super::route::Bound;
use super::table::Table;
use crate::connect::column::{ColumnDescription, TableDescription, TypeKind};
use crate::pgoutput::{Column, Relation, ReplicaIdentity};
use crate::postgres::{RelationFacts, TableFacts};
use crate::relay::error::Error;
use crate::telemetry::{Metrics, Status};
use crate::wal::Oid;

/// A relation that the stream describes, and what is known of it.
#[derive(Clone, Copy)]
pub(in crate::relay) struct Resolution<'r> {
    pub(in crate::relay) rules: Rules<'r>,
    pub(in crate::relay) relation: &'r Relation,
    /// The catalog's word on it; none when it is gone.
    pub(in crate::relay) facts: Option<&'r RelationFacts>,
    pub(in crate::relay) status: &'r Status,
    pub(in crate::relay) metrics: &'r Metrics,
}

/// Consequence of a verdict.
pub(in crate::relay) enum Resolved {
    /// Its rows are sent as those of this table. Its columns must still be queried: see
    /// [`Resolution::described`].
    Captured(CapturedTable),
    /// Not captured: its rows are not sent.
    NotCaptured(NotSent),
}

impl Resolution<'_> {
    /// Applies a verdict.
    ///
    /// # Errors
    /// When its rows can neither be sent nor ignored.
    pub(in crate::relay) fn resolve(&self, verdict: Verdict) -> Result<Resolved, Error> {
        let Relation { schema, table, .. } = self.relation;
        match verdict {
            Verdict::Captured(table) => Ok(Resolved::Captured(table)),
            Verdict::Excluded => Err(excluded_by_predicate(schema, table).into()),
            Verdict::Unknown(candidates) => {
                let (table, candidates) = (self.full_name(), candidates.join(", "));
                Err(CaptureError::Unknown { table, candidates }.into())
            }
            Verdict::NotCaptured(NotCaptured { reason, near_miss }) => {
                let (metrics, status) = (self.metrics, Some(self.status));
                let not_sent = NotSent::new(metrics, status, &self.full_name(), reason, near_miss);
                Ok(Resolved::NotCaptured(not_sent))
            }
        }
    }

    /// Returns the table whose columns describe it: one that is gone is described as the table that it was a
    /// partition of.
    pub(in crate::relay) fn described(&self, table: &CapturedTable) -> Oid {
        if self.facts.is_some() { table.oid() } else { table.root() }
    }

    /// Makes a captured relation ready to be sent; `description` is that of [`Self::described`]. It is captured from now on,
    /// whatever it is named later.
    ///
    /// # Errors
    /// When the router cannot use it.
    pub(in crate::relay) fn bind(
        &self,
        table: CapturedTable,
        description: &TableDescription,
    ) -> Result<Table, Error> {
        self.report(&table);
        let Rules { route, captured, .. } = self.rules;
        let (schema, name) = (table.schema.clone(), table.name.clone());
        let named = Relation { schema, table: name, ..self.relation.clone() };
        let columns = match description.columns.as_slice() {
            [] => self.with_known_key(&table),
            _ => description.at_the_time_of(&named),
        };
        let bound = route.bind(&named, &columns);
        let is_new = captured.get(table.oid()).is_none();
        captured.add(table.clone());
        if self.facts.is_some() && hides_key(self.relation) {
            captured.set_key(table.oid(), key_of(&columns));
        }
        self.capture_root(&table);
        if let Ok(bound) = &bound {
            self.report_notes(bound, is_new);
        }
        bound.map(Table::Captured).map_err(|source| {
            let columns = &description.columns;
            let today = relation_from(table.root(), &table.schema, &table.name, columns);
            let is_usable = route.bind(&today, columns).is_ok();
            let present = if is_usable { PresentTable::Usable } else { PresentTable::Unusable };
            CaptureError::Unusable { table: table.full_name(), present, source }.into()
        })
    }

    /// Returns the columns of a table that is gone and whose rows do not carry their key, with the key that
    /// an earlier session or process has seen. Returns none if that is not known.
    fn with_known_key(&self, table: &CapturedTable) -> Vec<ColumnDescription> {
        let Self { relation, rules: Rules { captured, .. }, .. } = self;
        let has = |name: &String| relation.columns.iter().any(|column| column.name == *name);
        let key = captured.get(table.oid()).and_then(|known| known.key).filter(|key| key.iter().all(has));
        let Some(key) = key.filter(|_| hides_key(relation)) else { return Vec::new() };
        let described = |column: &Column| {
            let position = (1..).zip(&key).find(|(_, name)| **name == column.name).map(|(place, _)| place);
            let description = ColumnDescription::from_pgoutput(column);
            ColumnDescription { key_position: position, not_null: position.is_some(), ..description }
        };
        relation.columns.iter().map(described).collect()
    }

    /// Logs the notes that the start has not logged: a table may get other columns at any time, and a column
    /// whose type is dropped is in no event of the rows before that.
    fn report_notes(&self, bound: &Bound, is_new: bool) {
        let is_outbox = matches!(bound, Bound::Outbox(_));
        for note in bound.notes() {
            match self.rules.captured.note(&note) {
                Noted::New if !is_outbox || is_new => {}
                Noted::New | Noted::Known => continue,
                Noted::NoRoom { is_first } => {
                    self.metrics.count_dropped_note();
                    if is_first {
                        tracing::warn!(
                            "more notes about tables than are remembered: later ones are counted in outboxd_notes_left_out_total, and not logged"
                        );
                    }
                    continue;
                }
            }
            tracing::warn!("{note}");
            if !is_outbox {
                self.status.warn(note);
            }
        }
    }

    /// Captures the table that it is a partition of as well: the next partition may have any name, and so may
    /// the table.
    fn capture_root(&self, table: &CapturedTable) {
        let root = self.facts.and_then(|facts| facts.root.as_ref());
        if let Some(root) = root.filter(|root| root.oid == table.root()) {
            let root = CapturedTable::new(root.oid, root.oid, &root.schema, &root.name);
            self.rules.captured.add(root);
        }
    }

    /// Logs a table that is sent although its name alone would not be captured.
    fn report(&self, table: &CapturedTable) {
        let Self { rules: Rules { filter, captured, .. }, relation, facts, .. } = self;
        let is_known = captured.get(table.oid()).is_some();
        let is_partition = facts.is_some_and(|facts| facts.root.is_some());
        if table.root != table.oid && !is_known && !is_partition {
            let root = captured.get(table.root()).map_or_else(String::new, |root| root.full_name());
            tracing::warn!(
                table = table.full_name(),
                root,
                "the table was dropped or detached before its rows were read: they are sent as rows of a \
                 partition"
            );
        }
        if table.root == table.oid && filter.excluded_by(&relation.schema, &relation.table).is_some() {
            renamed(self.status, table, &relation.schema, &relation.table);
        }
    }

    fn full_name(&self) -> String {
        format!("{}.{}", self.relation.schema, self.relation.table)
    }
}

/// Returns true if the stream does not identify the primary key.
const fn hides_key(relation: &Relation) -> bool {
    matches!(relation.replica_identity, ReplicaIdentity::Full | ReplicaIdentity::Nothing)
}

/// Returns the names of the columns of the primary key, in its order.
pub(in crate::relay) fn key_of(columns: &[ColumnDescription]) -> Vec<String> {
    let mut key: Vec<_> =
        columns.iter().filter_map(|column| Some((column.key_position?, &column.name))).collect();
    key.sort_unstable();
    key.into_iter().map(|(_, name)| name.clone()).collect()
}

/// Returns a column of type `name` as `text`. Debezium reads a `name` in the stream as null, and in a
/// snapshot as its text.
pub(in crate::relay) fn read_whole(column: &ColumnDescription) -> ColumnDescription {
    let is_name = matches!(&column.kind, TypeKind::Base { name } if name == "name");
    let text =
        || TypeKind::Domain { name: "name".to_owned(), base: Box::new(TypeKind::base("text")), modifier: -1 };
    let kind = if is_name { text() } else { column.kind.clone() };
    ColumnDescription { kind, ..column.clone() }
}

/// Returns the table as the stream would describe it.
pub(crate) fn relation_of(table: &TableFacts, columns: &[ColumnDescription]) -> Relation {
    relation_from(table.oid, &table.schema, &table.name, columns)
}

/// Returns a table of this name and these columns as the stream would describe it.
pub(in crate::relay) fn relation_from(
    oid: Oid,
    schema: &str,
    table: &str,
    columns: &[ColumnDescription],
) -> Relation {
    let columns = columns.iter().map(|column| Column {
        name: column.name.clone(),
        type_oid: column.type_oid,
        type_modifier: column.type_modifier,
        in_identity: false,
    });
    Relation {
        oid,
        schema: schema.to_owned(),
        table: table.to_owned(),
        replica_identity: ReplicaIdentity::Default,
        columns: columns.collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::postgres::{NamedTable, TableFilter, TableOptions};
    use crate::relay::capture::captured::{CapturedTables, route};
    use crate::telemetry::{ConfigInfo, Limits};

    #[test]
    fn the_root_of_a_captured_partition_is_captured_too() {
        let table_include = vec![r"public\.outbox".to_owned()];
        let filter = TableFilter::new(&TableOptions { table_include, ..TableOptions::default() }).unwrap();
        let (route, captured) = (route(), CapturedTables::default());
        let columns = ["id", "aggregatetype", "aggregateid", "type", "payload"];
        let columns = columns.map(|name| Column {
            name: name.to_owned(),
            type_oid: Oid(25),
            type_modifier: -1,
            in_identity: false,
        });
        let partition = |oid, name: &str| Relation {
            oid: Oid(oid),
            schema: "public".to_owned(),
            table: name.to_owned(),
            replica_identity: ReplicaIdentity::Default,
            columns: columns.to_vec(),
        };
        let facts = |root: &str| {
            let root = NamedTable { oid: Oid(1), schema: "public".to_owned(), name: root.to_owned() };
            let (schema, name) = ("public".to_owned(), "any".to_owned());
            RelationFacts { schema, name, root: Some(root), inherits: true }
        };
        let (status, metrics) =
            (Status::new(Limits::default(), Instant::now()), Metrics::new(&ConfigInfo::default()));
        let rules = Rules { filter: &filter, route: &route, captured: &captured };
        for (relation, facts) in
            [(partition(2, "p1"), facts("outbox")), (partition(3, "p2"), facts("renamed"))]
        {
            let (relation, facts) = (&relation, Some(&facts));
            let resolution = Resolution { rules, relation, facts, status: &status, metrics: &metrics };
            let verdict = rules.judge(relation, facts).expect("a partition");
            let Ok(Resolved::Captured(table)) = resolution.resolve(verdict) else { panic!("{relation:?}") };
            resolution.bind(table, &TableDescription::default()).unwrap();
        }
        assert_eq!(captured.roots().len(), 1);
        assert_eq!(captured.list().len(), 3);
    }
}
