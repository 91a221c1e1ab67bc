//! What the rows of a relation are to us, with the catalog's word on it.

use std::sync::Arc;

use super::Error;
use super::capture::{
    CaptureError, CapturedTable, CapturedTables, NotCaptured, NotSent, Rules, Since, Today, Verdict, renamed,
};
use super::parts::RelayParts;
use super::preflight::{Capture, left_out, relation_from};
use super::table::Table;
use crate::outbox::{BindError, OutboxTable};
use crate::pgoutput::Relation;
use crate::postgres::{self, RelationFacts, Sql};
use crate::telemetry::{Metrics, Status};
use crate::wal::Oid;

/// Says what the rows of a relation are to us, and asks the catalog for what it needs to know.
#[derive(Debug, Clone)]
pub(super) struct Resolver<'s> {
    pub(super) parts: &'s RelayParts,
    pub(super) sql: Arc<Sql>,
    captured: CapturedTables,
    version_num: i32,
    pub(super) status: &'s Status,
    pub(super) metrics: &'s Metrics,
}

impl<'s> Resolver<'s> {
    pub(super) fn new(
        parts: &'s RelayParts,
        sql: &Arc<Sql>,
        capture: &Capture,
        status: &'s Status,
        metrics: &'s Metrics,
    ) -> Self {
        let (sql, captured) = (Arc::clone(sql), capture.known.clone());
        Self { parts, sql, captured, version_num: capture.version_num, status, metrics }
    }

    /// What a relation that the stream describes is to us.
    ///
    /// # Errors
    /// When it is captured, or may be, and cannot be sent; or when the catalog does not answer.
    pub(super) async fn resolve(self, relation: Relation) -> Result<Table, Error> {
        let facts = self.sql.relation(relation.oid).await?;
        let verdict = match self.rules().judge(&relation, facts.as_ref()) {
            Some(verdict) => verdict,
            None => self.judge_former(&relation, facts.as_ref()).await?,
        };
        match verdict {
            Verdict::Captured(table) => self.capture(&relation, facts.as_ref(), table).await,
            Verdict::LeftOut => Err(left_out(&relation.schema, &relation.table).into()),
            Verdict::Unknown(candidates) => {
                let candidates = candidates.join(", ");
                Err(CaptureError::Unknown { table: full_name(&relation), candidates }.into())
            }
            Verdict::NotCaptured(NotCaptured { reason, near_miss }) => {
                let table = full_name(&relation);
                Ok(Table::NotCaptured(NotSent::new(
                    self.metrics,
                    Some(self.status),
                    &table,
                    reason,
                    near_miss,
                )))
            }
        }
    }

    const fn rules(&self) -> Rules<'_> {
        Rules { filter: &self.parts.tables, router: &self.parts.router, captured: &self.captured }
    }

    async fn judge_former(
        &self,
        relation: &Relation,
        facts: Option<&RelationFacts>,
    ) -> Result<Verdict, Error> {
        let (name, version_num) = (&self.parts.postgres.publication.name, self.version_num);
        let known: Vec<Oid> = self.captured.list().iter().map(CapturedTable::oid).collect();
        let asked = [known.as_slice(), &[relation.oid]].concat();
        let roots: Vec<Oid> = self.captured.roots().iter().map(CapturedTable::oid).collect();
        let (publication, roots) = tokio::try_join!(
            self.sql.publication_version(name, &asked, version_num),
            self.sql.tables_of_oids(&roots)
        )?;
        let Some(mut publication) = publication else { return Err(gone(name).into()) };
        // The relation itself was asked for to see whether it is named: it is one of the others.
        publication.others |= publication.members.iter().any(|member| member.table == relation.oid);
        Ok(self.rules().judge_former(relation, &Today { facts, publication: &publication, roots: &roots }))
    }

    async fn capture(
        &self,
        relation: &Relation,
        facts: Option<&RelationFacts>,
        table: CapturedTable,
    ) -> Result<Table, Error> {
        self.tell(relation, facts, &table);
        // A table that is gone is described as the one that it was a partition of.
        let described = if facts.is_some() { table.oid() } else { table.root() };
        let columns = self.sql.describe(described).await?;
        let named = Relation { schema: table.schema.clone(), table: table.name.clone(), ..relation.clone() };
        let bound: Result<OutboxTable, BindError> = self.parts.router.bind(&named, &columns);
        self.captured.add(table.clone());
        match bound {
            Ok(bound) => Ok(Table::Outbox(Box::new(bound))),
            Err(source) => {
                let today = relation_from(table.root(), &table.schema, &table.name, &columns);
                let mended = self.parts.router.bind(&today, &columns).is_ok();
                let since = if mended { Since::Mended } else { Since::Altered };
                Err(CaptureError::Unusable { table: table.full_name(), since, source }.into())
            }
        }
    }

    /// Tells of a table that is sent although its name alone would not be captured.
    fn tell(&self, relation: &Relation, facts: Option<&RelationFacts>, table: &CapturedTable) {
        let is_known = self.captured.get(table.oid()).is_some();
        let is_partition = facts.is_some_and(|facts| facts.root.is_some());
        if table.root != table.oid && !is_known && !is_partition {
            let root = self.captured.get(table.root()).map_or_else(String::new, |root| root.full_name());
            tracing::warn!(
                table = table.full_name(),
                root,
                "a table that was dropped or detached before its rows were read: they are sent as rows of a partition"
            );
        }
        if table.root == table.oid
            && self.parts.tables.left_out_by(&relation.schema, &relation.table).is_some()
        {
            renamed(self.status, table, &relation.schema, &relation.table);
        }
    }
}

fn gone(publication: &str) -> postgres::Error {
    postgres::Error::Precondition {
        problem: format!("publication {publication:?} is gone"),
        cure: "make it again, and start once with -X snapshot.mode=always to send all rows that are in the table".to_owned(),
    }
}

fn full_name(relation: &Relation) -> String {
    format!("{}.{}", relation.schema, relation.table)
}
