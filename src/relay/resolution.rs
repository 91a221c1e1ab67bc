//! What the rows of a relation are to us, from what the catalog says of it. Who asks the catalog is `resolver`.

use super::capture::{
    CaptureError, CapturedTable, NotCaptured, NotSent, Rules, Since, Verdict, left_out, renamed,
};
use super::error::Error;
use super::route::Bound;
use super::table::Table;
use crate::connect::column::{ColumnDescription, TableDescription, TypeKind};
use crate::pgoutput::{Column, Relation, ReplicaIdentity};
use crate::postgres::{RelationFacts, TableFacts};
use crate::telemetry::{Metrics, Status};
use crate::wal::Oid;

/// A relation that the stream describes, and what is known of it.
#[derive(Clone, Copy)]
pub(super) struct Resolution<'r> {
    pub(super) rules: Rules<'r>,
    pub(super) relation: &'r Relation,
    /// The catalog's word on it; none when it is gone.
    pub(super) facts: Option<&'r RelationFacts>,
    pub(super) status: &'r Status,
    pub(super) metrics: &'r Metrics,
}

/// What follows from a verdict.
pub(super) enum Resolved {
    /// Its rows are sent as those of this table. The columns are still to be asked for: see [`Resolution::described`].
    Captured(CapturedTable),
    /// Its rows are not sent.
    NotCaptured(NotSent),
}

impl Resolution<'_> {
    /// What follows from a verdict.
    ///
    /// # Errors
    /// When its rows can neither be sent nor left aside.
    pub(super) fn resolve(&self, verdict: Verdict) -> Result<Resolved, Error> {
        let Relation { schema, table, .. } = self.relation;
        match verdict {
            Verdict::Captured(table) => Ok(Resolved::Captured(table)),
            Verdict::LeftOut => Err(left_out(schema, table).into()),
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

    /// The table whose columns describe it: one that is gone is described as the one that it was a partition of.
    pub(super) fn described(&self, table: &CapturedTable) -> Oid {
        if self.facts.is_some() { table.oid() } else { table.root() }
    }

    /// Makes a captured relation ready to be sent; `description` is that of [`Self::described`]. It is captured from now on,
    /// whatever it is named later.
    ///
    /// # Errors
    /// When the router cannot use it.
    pub(super) fn bind(&self, table: CapturedTable, description: &TableDescription) -> Result<Table, Error> {
        self.tell(&table);
        let Rules { route, captured, .. } = self.rules;
        let (schema, name) = (table.schema.clone(), table.name.clone());
        let named = Relation { schema, table: name, ..self.relation.clone() };
        let bound = route.bind(&named, &description.at_the_time_of(&named));
        let is_new = captured.get(table.oid()).is_none();
        captured.add(table.clone());
        self.capture_root(&table);
        if let Ok(bound) = &bound {
            self.tell_notes(bound, is_new);
        }
        bound.map(Table::Captured).map_err(|source| {
            let columns = &description.columns;
            let today = relation_from(table.root(), &table.schema, &table.name, columns);
            let mended = route.bind(&today, columns).is_ok();
            let since = if mended { Since::Mended } else { Since::Altered };
            CaptureError::Unusable { table: table.full_name(), since, source }.into()
        })
    }

    /// What the start has not told: a table may get other columns at any time, and a column whose type is dropped is in no event of
    /// the rows before that.
    fn tell_notes(&self, bound: &Bound, is_new: bool) {
        let is_outbox = matches!(bound, Bound::Outbox(_));
        for note in bound.notes() {
            if !self.rules.captured.tells(&note) || is_outbox && !is_new {
                continue;
            }
            tracing::warn!("{note}");
            if !is_outbox {
                self.status.warn(note);
            }
        }
    }

    /// The table that it is a partition of is captured as well: its next partition may have any name, and so may it.
    fn capture_root(&self, table: &CapturedTable) {
        let root = self.facts.and_then(|facts| facts.root.as_ref());
        if let Some(root) = root.filter(|root| root.oid == table.root()) {
            let root = CapturedTable::new(root.oid, root.oid, &root.schema, &root.name);
            self.rules.captured.add(root);
        }
    }

    /// Tells of a table that is sent although its name alone would not be captured.
    fn tell(&self, table: &CapturedTable) {
        let Self { rules: Rules { filter, captured, .. }, relation, facts, .. } = self;
        let is_known = captured.get(table.oid()).is_some();
        let is_partition = facts.is_some_and(|facts| facts.root.is_some());
        if table.root != table.oid && !is_known && !is_partition {
            let root = captured.get(table.root()).map_or_else(String::new, |root| root.full_name());
            tracing::warn!(
                table = table.full_name(),
                root,
                "a table that was dropped or detached before its rows were read: they are sent as rows of a partition"
            );
        }
        if table.root == table.oid && filter.left_out_by(&relation.schema, &relation.table).is_some() {
            renamed(self.status, table, &relation.schema, &relation.table);
        }
    }

    fn full_name(&self) -> String {
        format!("{}.{}", self.relation.schema, self.relation.table)
    }
}

/// Debezium reads a `name` while it streams as if it were null, and in a snapshot as the text that it is.
pub(super) fn read_whole(column: &ColumnDescription) -> ColumnDescription {
    let is_name = matches!(&column.kind, TypeKind::Base { name } if name == "name");
    let text =
        || TypeKind::Domain { name: "name".to_owned(), base: Box::new(TypeKind::base("text")), modifier: -1 };
    let kind = if is_name { text() } else { column.kind.clone() };
    ColumnDescription { kind, ..column.clone() }
}

/// The table as the stream would describe it.
pub(crate) fn relation_of(table: &TableFacts, columns: &[ColumnDescription]) -> Relation {
    relation_from(table.oid, &table.schema, &table.name, columns)
}

/// As the stream would describe a table of this name and these columns.
pub(super) fn relation_from(oid: Oid, schema: &str, table: &str, columns: &[ColumnDescription]) -> Relation {
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
    use crate::relay::capture::{CapturedTables, route};
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
