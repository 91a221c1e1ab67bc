//! The choice of captured tables among all tables of the catalog.

use super::identity::CapturedTables;
use super::judge::Rules;
use crate::postgres::{Error, TableFacts, TableFilter};

impl Rules<'_> {
    /// Returns the captured tables among all tables: those that match, and those that were captured before.
    ///
    /// # Errors
    /// When one never reaches the WAL, or the router's predicate excludes one.
    pub(in crate::relay) fn select<'t>(&self, all: &'t [TableFacts]) -> Result<Vec<&'t TableFacts>, Error> {
        let Self { filter, route, captured: known } = self;
        let is_outbox =
            |table: &TableFacts| route.acts_on(&table.schema, &table.name) && route.fits(&table.columns);
        let mut captured = filter.captured(all, is_outbox)?;
        if let Some(table) = captured.iter().find(|table| !route.acts_on(&table.schema, &table.name)) {
            return Err(excluded_by_predicate(&table.schema, &table.name));
        }
        captured.extend(captured_before(all, &captured, known, filter));
        Ok(captured)
    }
}

/// Returns the tables that an earlier session has captured and that have another name or other columns now,
/// unless the user has excluded them since.
fn captured_before<'t>(
    all: &'t [TableFacts],
    captured: &[&TableFacts],
    known: &CapturedTables,
    filter: &TableFilter,
) -> Vec<&'t TableFacts> {
    let mut found = Vec::new();
    for root in known.roots() {
        let Some(table) = all.iter().find(|table| table.oid.0 == root.oid) else { continue };
        let list = filter.excluded_by(&table.schema, &table.name);
        if list.is_some_and(|list| list.ends_with(".exclude.list")) {
            known.forget(table.oid);
        } else if !captured.iter().any(|other| other.oid == table.oid || table.root == Some(other.oid)) {
            found.push(table);
        }
    }
    found
}

/// Returns the error for a captured table that the router's predicate excludes.
pub(crate) fn excluded_by_predicate(schema: &str, table: &str) -> Error {
    Error::Precondition {
        problem: format!(
            "the router's predicate excludes table {schema}.{table}, which table.include.list captures: \
             its rows would be plain change events"
        ),
        fix: format!(
            "to send them as change events, name the outbox too in table.include.list. Otherwise take \
             {schema}.{table} out of the list, or correct the predicate"
        ),
    }
}
