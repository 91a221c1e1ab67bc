//! Asks the catalog what a relation is. What follows from that is decided in `resolution`.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use postgres_protocol::escape::escape_identifier;

use super::captured::{CapturedTable, CapturedTables, Rules, Today, Verdict};
use super::hypertables;
use super::preflight::Capture;
use super::resolution::{Resolution, Resolved, key_of};
use super::route::Bound;
use super::table::Table;
use crate::change::{Lookup, Reselected};
use crate::connect::column::{ColumnDescription, TableDescription};
use crate::error::{Class, Diagnose as _, chain};
use crate::pgoutput::{Relation, ReplicaIdentity};
use crate::postgres::{self, RelationFacts, Sql};
use crate::relay::error::Error;
use crate::relay::parts::RelayParts;
use crate::telemetry::{Metrics, Status};
use crate::wal::Oid;

/// Resolver of relations, which queries the catalog for what it needs.
#[derive(Debug, Clone)]
pub(in crate::relay) struct Resolver<'s> {
    pub(in crate::relay) parts: &'s RelayParts,
    pub(in crate::relay) sql: Arc<Sql>,
    captured: CapturedTables,
    version_num: i32,
    pub(in crate::relay) status: &'s Status,
    pub(in crate::relay) metrics: &'s Metrics,
    /// The transaction that was last waited for until others see it.
    pub(in crate::relay) seen: Arc<AtomicU32>,
}

impl<'s> Resolver<'s> {
    pub(in crate::relay) fn new(
        parts: &'s RelayParts,
        sql: &Arc<Sql>,
        capture: &Capture,
        status: &'s Status,
        metrics: &'s Metrics,
    ) -> Self {
        let (sql, captured) = (Arc::clone(sql), capture.known.clone());
        Self { parts, sql, captured, version_num: capture.version_num, status, metrics, seen: Arc::default() }
    }

    /// Resolves a relation of the stream.
    ///
    /// # Errors
    /// When it is captured, or may be, and cannot be sent; or when the catalog query fails.
    pub(in crate::relay) async fn resolve(self, relation: Relation) -> Result<Table, Error> {
        let facts = self.sql.relation(relation.oid).await?;
        let (rules, status, metrics) = (self.rules(), self.status, self.metrics);
        let resolution = Resolution { rules, relation: &relation, facts: facts.as_ref(), status, metrics };
        let verdict = match rules.judge(&relation, facts.as_ref()) {
            Some(verdict) => verdict,
            None => self.judge_former(&relation, facts.as_ref()).await?,
        };
        match resolution.resolve(verdict)? {
            Resolved::NotCaptured(not_sent) => Ok(Table::NotCaptured(not_sent)),
            Resolved::Captured(table) => {
                let description = self.describe(resolution.described(&table), &relation).await?;
                hypertables::learn_chunk(&self.sql, rules.route, &table.schema, &table.name).await?;
                let bound = resolution.bind(table, &description)?;
                if let Table::Captured(Bound::Changes(table)) = &bound {
                    self.warn_of_identity(table.name(), table.key_columns(), &relation);
                }
                Ok(bound)
            }
        }
    }

    /// Warns of a replica identity that lacks columns of the key. Old rows have only the columns of the
    /// replica identity, so a delete is sent under the key of another row, or of none.
    fn warn_of_identity<'k>(&self, table: &str, key: impl Iterator<Item = &'k str>, relation: &Relation) {
        let is_lacking =
            |name: &&str| relation.columns.iter().any(|column| column.name == *name && !column.in_identity);
        let lacking: Vec<&str> = key.filter(is_lacking).collect();
        if lacking.is_empty() || relation.replica_identity == ReplicaIdentity::Nothing {
            return;
        }
        let quoted = [&relation.schema, &relation.table].map(|name| escape_identifier(name)).join(".");
        let warning = format!(
            "the replica identity of table {table} lacks {} of its key: deletes, and changes of the key, have a wrong \
             key, as in Debezium. To fix: ALTER TABLE {quoted} REPLICA IDENTITY FULL; or choose an index that has these columns",
            lacking.join(", ")
        );
        if self.status.warn(warning.clone()) {
            tracing::warn!(table, "{warning}");
        }
    }

    /// Reads the catalog's description of a table. A table that is gone is replaced by the one that has its
    /// name now, as in Debezium: tools often recreate tables. One with another key is another table.
    async fn describe(&self, table: Oid, relation: &Relation) -> Result<TableDescription, Error> {
        let types: Vec<Oid> = relation.columns.iter().map(|column| column.type_oid).collect();
        let description = self.sql.describe_with(table, &types).await?;
        if !description.columns.is_empty() {
            return Ok(description);
        }
        let named = self.sql.tables_named(&[(relation.schema.as_str(), relation.table.as_str())]).await?;
        let Some(namesake) = named.first() else { return Ok(description) };
        let namesake = self.sql.describe_with(namesake.table.oid, &types).await?;
        let known = self.captured.get(relation.oid).and_then(|known| known.key);
        let is_the_same = has_key_of(&namesake.at_the_time_of(relation), relation, known);
        Ok(if is_the_same { namesake } else { description })
    }

    /// Reads the present values of a row. A server that is away is an error, a row or a table that is gone is
    /// not.
    ///
    /// # Errors
    /// When the query fails for a transient reason.
    pub(in crate::relay) async fn reselect(
        self,
        Lookup { sql, places }: Lookup,
    ) -> Result<Reselected, Error> {
        let row = match self.sql.texts("reading columns of a row again", &sql).await {
            Ok(Some(row)) => row,
            Ok(None) => return Ok(Reselected::Failed("no row is found by its key any more".to_owned())),
            Err(error) if error.class() == Class::Transient => return Err(error.into()),
            Err(error) => return Ok(Reselected::Failed(chain(&error))),
        };
        Ok(Reselected::Values(places.into_iter().zip(row).collect()))
    }

    const fn rules(&self) -> Rules<'_> {
        Rules { filter: &self.parts.tables, route: &self.parts.route, captured: &self.captured }
    }

    async fn judge_former(
        &self,
        relation: &Relation,
        facts: Option<&RelationFacts>,
    ) -> Result<Verdict, Error> {
        let (name, version_num) = (&self.parts.postgres.publication.name, self.version_num);
        let known: Vec<Oid> = self.captured.list().iter().map(CapturedTable::oid).collect();
        // The relation itself is asked for to see whether it is named.
        let asked = [known.as_slice(), &[relation.oid]].concat();
        let roots: Vec<Oid> = self.captured.roots().iter().map(CapturedTable::oid).collect();
        let (publication, roots) = tokio::try_join!(
            self.sql.publication_version(name, &asked, version_num),
            self.sql.tables_of_oids(&roots)
        )?;
        let Some(publication) = publication else { return Err(gone(name).into()) };
        Ok(self.rules().judge_former(relation, &Today { facts, publication: &publication, roots: &roots }))
    }
}

/// Returns true if a key identifies the old rows of a relation, or, where these lack it, equals the `known` one.
fn has_key_of(columns: &[ColumnDescription], relation: &Relation, known: Option<Vec<String>>) -> bool {
    let is_full = relation.replica_identity == ReplicaIdentity::Full;
    if is_full && known.is_some_and(|known| known != key_of(columns)) {
        return false;
    }
    let in_key = |column: &ColumnDescription| column.key_position.is_some();
    let mut pairs = relation.columns.iter().zip(columns);
    columns.iter().any(in_key) && pairs.all(|(then, now)| is_full || then.in_identity == in_key(now))
}

fn gone(publication: &str) -> postgres::Error {
    postgres::Error::Precondition {
        problem: format!("publication {publication:?} is gone"),
        fix: "make it again, and start once with -X snapshot.mode=always to send all rows that are in the table. If rows were written \
              meanwhile, that start ends with the statement that moves the slot past them"
            .to_owned(),
    }
}
