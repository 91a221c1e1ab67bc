//! What the rows of a relation are to us, from what the catalog says of it. Who asks the catalog is `resolver`.

use super::Error;
use super::capture::{
    CaptureError, CapturedTable, NotCaptured, NotSent, Rules, Since, Verdict, left_out, renamed,
};
use super::table::Table;
use crate::connect::column::ColumnDescription;
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

    /// Makes a captured relation ready to be sent; `columns` are those of [`Self::described`]. It is captured from now on,
    /// whatever it is named later.
    ///
    /// # Errors
    /// When the router cannot use it.
    pub(super) fn bind(&self, table: CapturedTable, columns: &[ColumnDescription]) -> Result<Table, Error> {
        self.tell(&table);
        let Rules { router, captured, .. } = self.rules;
        let (schema, name) = (table.schema.clone(), table.name.clone());
        let named = Relation { schema, table: name, ..self.relation.clone() };
        let bound = router.bind(&named, columns);
        captured.add(table.clone());
        bound.map(|bound| Table::Outbox(Box::new(bound))).map_err(|source| {
            let today = relation_from(table.root(), &table.schema, &table.name, columns);
            let mended = router.bind(&today, columns).is_ok();
            let since = if mended { Since::Mended } else { Since::Altered };
            CaptureError::Unusable { table: table.full_name(), since, source }.into()
        })
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
