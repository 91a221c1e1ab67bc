//! Decides whether a relation of the stream is captured, from known facts alone and without a query.

use super::identity::{CapturedTable, CapturedTables};
use crate::pgoutput::Relation;
use crate::postgres::{PublicationVersion, RelationFacts, TableFacts, TableFilter};
use crate::relay::capture::route::Route;

/// Inputs of the decision.
#[derive(Clone, Copy)]
pub(in crate::relay) struct Rules<'r> {
    pub(in crate::relay) filter: &'r TableFilter,
    pub(in crate::relay) route: &'r Route,
    pub(in crate::relay) captured: &'r CapturedTables,
}

/// Verdict on a relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::relay) enum Verdict {
    /// Captured: its rows are sent as those of this table.
    Captured(CapturedTable),
    /// The list names it, and the router's predicate leaves it out.
    Excluded,
    /// Not captured: its rows are not sent.
    NotCaptured(NotCaptured),
    /// Possibly a former partition of one of these.
    Unknown(Vec<String>),
}

/// Reasons why the rows of a relation are not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::relay) struct NotCaptured {
    /// One word from a fixed set: an option, or what is missing.
    pub(in crate::relay) reason: &'static str,
    /// Warning for the operator, if the table nearly matches.
    pub(in crate::relay) near_miss: Option<String>,
}

/// The catalog of today, as far as it matters for one relation.
pub(in crate::relay) struct Today<'t> {
    /// The relation; none when it is gone.
    pub(in crate::relay) facts: Option<&'t RelationFacts>,
    pub(in crate::relay) publication: &'t PublicationVersion,
    /// The captured tables that are still there.
    pub(in crate::relay) roots: &'t [TableFacts],
}

impl Rules<'_> {
    /// Judges by identity, by name, and by the table that it is a partition of at present. A table that is in
    /// no partition tree at present, or gone, needs [`Rules::judge_former`].
    pub(in crate::relay) fn judge(
        &self,
        relation: &Relation,
        facts: Option<&RelationFacts>,
    ) -> Option<Verdict> {
        let own = CapturedTable::new(relation.oid, relation.oid, &relation.schema, &relation.table);
        let columns = names(relation);
        let known = self.captured.get(relation.oid);
        let root = facts.and_then(|facts| facts.root.as_ref()).filter(|root| {
            self.captured.get(root.oid).is_some() || self.mismatch(&root.schema, &root.name, &columns).is_ok()
        });
        let own = CapturedTable { root: root.map_or(own.root, |root| root.oid.0), ..own };
        let mismatch = match (self.mismatch(&relation.schema, &relation.table, &columns), known) {
            // A new name that is captured too is the table's name from now on, as it is for Debezium.
            (Ok(()), Some(known)) => {
                return Some(Verdict::Captured(CapturedTable { root: known.root, ..own }));
            }
            (Ok(()), None) => return Some(Verdict::Captured(own)),
            // A partition that is excluded by its own name, as for Debezium. One that was renamed to it stays captured.
            (Err(reason), known)
                if reason.ends_with(EXCLUDES)
                    && known.as_ref().is_none_or(|known| known.is_named(relation)) =>
            {
                return Some(Verdict::NotCaptured(self.passed(relation, reason)));
            }
            (Err(_), Some(known)) => return Some(Verdict::Captured(known)),
            (Err(EXCLUDED), None) => return Some(Verdict::Excluded),
            (Err(reason), None) => reason,
        };
        if root.is_some() {
            return Some(Verdict::Captured(own));
        }
        let may_have_been_ours = facts.is_none_or(|facts| facts.root.is_none() && !facts.inherits)
            && !mismatch.ends_with(EXCLUDES)
            && mismatch != "predicate";
        (!may_have_been_ours).then(|| Verdict::NotCaptured(self.passed(relation, mismatch)))
    }

    /// Judges a table that is in no partition tree today, or gone. If the publication does not publish it by itself, its
    /// rows have come through a table that it was a partition of.
    pub(in crate::relay) fn judge_former(&self, relation: &Relation, today: &Today<'_>) -> Verdict {
        let columns = names(relation);
        let publication = today.publication;
        let member = publication.members.iter().any(|member| member.table == relation.oid);
        let by_itself =
            today.facts.is_some() && (member || publication.all_tables || !publication.schemas.is_empty());
        let same: Vec<_> = today
            .roots
            .iter()
            .filter(|root| root.partitioned && same_columns(&root.columns, &columns))
            .collect();
        let looks_like_ours = has_most_columns(self.route, &columns);
        let alike: Vec<_> = match same.is_empty() {
            true if looks_like_ours && !by_itself => {
                today.roots.iter().filter(|root| root.partitioned).collect()
            }
            _ => same,
        };
        // The relation itself is one of the others, when it is named.
        let others = publication.others || member;
        let only_ours = !publication.all_tables && publication.schemas.is_empty() && !others;
        match alike.as_slice() {
            [root] if only_ours && !by_itself => {
                let own = CapturedTable::new(relation.oid, root.oid, &relation.schema, &relation.table);
                Verdict::Captured(own)
            }
            [] if looks_like_ours && only_ours && !by_itself => {
                Verdict::Unknown(today.roots.iter().map(full_name).collect())
            }
            [] if looks_like_ours && !member && !self.gone(today).is_empty() => {
                Verdict::Unknown(self.gone(today))
            }
            [] => self.not_listed(relation, member),
            _ if member => self.not_listed(relation, member),
            // The columns of an outbox are like no others. Those of any table are: Debezium goes by its name.
            _ if by_itself && self.route.outbox().is_none() => self.not_listed(relation, member),
            several => Verdict::Unknown(several.iter().map(|root| full_name(root)).collect()),
        }
    }

    /// Returns the captured tables that had partitions and are gone.
    fn gone(&self, today: &Today<'_>) -> Vec<String> {
        let known = self.captured.list();
        let had_partitions =
            |root: &CapturedTable| known.iter().any(|table| table.root == root.oid && table.oid != root.oid);
        let is_there = |root: &CapturedTable| today.roots.iter().any(|there| there.oid == root.oid());
        let roots = known.iter().filter(|table| table.root == table.oid);
        let gone = roots.filter(|root| !is_there(root) && had_partitions(root));
        gone.map(CapturedTable::full_name).collect()
    }

    fn not_listed(&self, relation: &Relation, member: bool) -> Verdict {
        let reason = self.filter.excluded_by(&relation.schema, &relation.table).unwrap_or("columns");
        let mut passed = self.passed(relation, reason);
        if member && passed.near_miss.is_none() {
            let table = format!("{}.{}", relation.schema, relation.table);
            passed.near_miss = Some(in_the_publication(&table, reason));
        }
        Verdict::NotCaptured(passed)
    }

    /// Returns the reason for which a table of this name and these columns is not captured, as an error.
    fn mismatch(&self, schema: &str, table: &str, columns: &[String]) -> Result<(), &'static str> {
        if let Some(list) = self.filter.excluded_by(schema, table) {
            return Err(list);
        }
        match (self.filter.names_tables(), self.route.acts_on(schema, table)) {
            (true, true) => Ok(()),
            (true, false) => Err(EXCLUDED),
            (false, false) => Err("predicate"),
            (false, true) if self.route.fits(columns) => Ok(()),
            (false, true) => Err("columns"),
        }
    }

    fn passed(&self, relation: &Relation, reason: &'static str) -> NotCaptured {
        let columns = names(relation);
        let table = format!("{}.{}", relation.schema, relation.table);
        NotCaptured { reason, near_miss: near_miss(self.route, &table, &columns, reason) }
    }
}

/// Suffix of the options that exclude tables by name.
const EXCLUDES: &str = ".exclude.list";

/// Reason of [`Verdict::Excluded`].
const EXCLUDED: &str = "left out";

/// Returns the warning about a table that is not captured and has most of the columns that the router needs.
pub(crate) fn near_miss(route: &Route, table: &str, columns: &[String], reason: &str) -> Option<String> {
    if reason.ends_with(EXCLUDES) || reason == "predicate" || !has_most_columns(route, columns) {
        return None;
    }
    let missing = route.missing(columns);
    if missing.is_empty() {
        return Some(format!(
            "table {table} has every column that the router needs, but {reason} leaves it out: its rows are \
             not sent"
        ));
    }
    let lacks: Vec<String> =
        missing.iter().map(|(option, column)| format!("\"{column}\" ({option})")).collect();
    Some(format!(
        "table {table} looks like an outbox table, but lacks {}: its rows are not sent",
        lacks.join(", ")
    ))
}

/// Returns the warning about a table that is in the publication and is not captured.
pub(crate) fn in_the_publication(table: &str, reason: &str) -> String {
    match reason {
        "columns" => format!(
            "table {table} is in the publication, but lacks columns that the router needs: its rows are not \
             sent"
        ),
        list => {
            format!("table {table} is in the publication, but {list} leaves it out: its rows are not sent")
        }
    }
}

fn has_most_columns(route: &Route, columns: &[String]) -> bool {
    route.missing(columns).len().saturating_mul(2) < route.required_columns().len()
}

fn names(relation: &Relation) -> Vec<String> {
    relation.columns.iter().map(|column| column.name.clone()).collect()
}

fn same_columns(left: &[String], right: &[String]) -> bool {
    left.len() == right.len() && left.iter().all(|column| right.contains(column))
}

fn full_name(table: &TableFacts) -> String {
    format!("{}.{}", table.schema, table.name)
}
