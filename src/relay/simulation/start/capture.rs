//! Conclusions of a relay from the catalog, correct and with a planted bug.

use crate::connect::column::TableDescription;
use crate::pgoutput::Relation;
use crate::postgres::{self, PublishedOperations, TableFilter};
use crate::relay::capture::captured::{
    CaptureError, CapturedTable, CapturedTables, Finding, Look, Namesake, NotSent, Rules, Today, Watched,
    judge,
};
use crate::relay::capture::resolution::{Resolution, Resolved, relation_of};
use crate::relay::capture::table::Table;
use crate::relay::error::Error;
use crate::relay::simulation::bug::Bug;
use crate::relay::simulation::postgres::catalog::{Catalog, PUBLICATION};
use crate::relay::simulation::world::Bench;
use crate::wal::Oid;

/// The tables of one process.
#[derive(Clone)]
pub(in crate::relay::simulation) struct Capture<'p> {
    pub(in crate::relay::simulation) bench: &'p Bench,
    pub(in crate::relay::simulation) filter: &'p TableFilter,
    pub(in crate::relay::simulation) known: CapturedTables,
    pub(in crate::relay::simulation) bug: Option<Bug>,
}

impl Capture<'_> {
    /// Does the same as `Preflight::capture`: returns the tables that a start captures.
    pub(in crate::relay::simulation) fn start(&self, catalog: &Catalog) -> Result<Vec<Oid>, Error> {
        let all = catalog.table_facts();
        let captured = self.rules().select(&all)?;
        for table in &captured {
            let columns = catalog.describe(table.oid);
            self.bench.route.bind(&relation_of(table, &columns), &columns)?;
        }
        let oids: Vec<Oid> = captured.iter().map(|table| table.oid).collect();
        self.known.learn(&catalog.table_versions(&oids));
        Ok(oids)
    }

    /// Does the same as `Resolver::resolve`: judges a relation of the stream.
    pub(in crate::relay::simulation) fn resolve(
        &self,
        relation: &Relation,
        catalog: &Catalog,
    ) -> Result<Table, Error> {
        if self.bug == Some(Bug::CapturesByName) {
            return Ok(self.resolve_by_name(relation, catalog));
        }
        match self.judged(relation, catalog) {
            Err(Error::Capture(CaptureError::Unusable { .. })) if self.bug == Some(Bug::SkipsUnusable) => {
                Ok(Table::NotCaptured(NotSent::default()))
            }
            table => table,
        }
    }

    /// Does the same as the guard of the publication, once: finds what was altered since the last poll.
    pub(in crate::relay::simulation) fn look(
        &self,
        publication: Option<u32>,
        catalog: &Catalog,
    ) -> Result<(), postgres::Error> {
        let roots = self.known.roots();
        let oids: Vec<Oid> = roots.iter().map(CapturedTable::oid).collect();
        let tables = catalog.table_versions(&oids);
        let names: Vec<_> = roots.iter().map(|table| (table.schema.as_str(), table.name.as_str())).collect();
        let namesakes = Namesake::among(catalog.tables_named(&names), &self.known);
        let mut asked: Vec<Oid> = self.known.list().iter().map(CapturedTable::oid).collect();
        asked.extend(tables.iter().flat_map(|table| table.ancestors.iter().copied().chain([table.oid])));
        asked.extend(
            namesakes.iter().flat_map(|namesake| namesake.ancestors.iter().copied().chain([namesake.oid])),
        );
        let publication = publication.map(|number| catalog.publication(number, &asked));
        let look = Look { publication, tables, namesakes };
        let before = self.known.last_look();
        let watched = Watched {
            publication: PUBLICATION,
            needed: &PublishedOperations::Inserts,
            may_lack_tables: false,
        };
        for finding in judge(watched, before.as_ref(), &look) {
            if let Finding::End(error) = finding {
                return Err(error);
            }
        }
        self.known.learn(&look.tables);
        self.known.store_look(look);
        Ok(())
    }

    fn judged(&self, relation: &Relation, catalog: &Catalog) -> Result<Table, Error> {
        let rules = self.rules();
        let facts = catalog.relation_facts(relation.oid);
        let (status, metrics) = (&self.bench.status, &self.bench.metrics);
        let resolution = Resolution { rules, relation, facts: facts.as_ref(), status, metrics };
        let verdict = rules.judge(relation, facts.as_ref()).unwrap_or_else(|| {
            let mut asked: Vec<Oid> = self.known.list().iter().map(CapturedTable::oid).collect();
            asked.push(relation.oid);
            let roots = self.known.roots();
            let mut roots_there = catalog.table_facts();
            roots_there.retain(|table| roots.iter().any(|root| root.oid() == table.oid));
            let publication = catalog.publication(0, &asked);
            let today = Today { facts: facts.as_ref(), publication: &publication, roots: &roots_there };
            rules.judge_former(relation, &today)
        });
        match resolution.resolve(verdict)? {
            Resolved::NotCaptured(not_sent) => Ok(Table::NotCaptured(not_sent)),
            Resolved::Captured(table) => {
                let columns = catalog.describe(resolution.described(&table));
                resolution.bind(table, &TableDescription { columns, ..TableDescription::default() })
            }
        }
    }

    /// Plants the bug: the name decides, or that of the table that it is a partition of at present; what does
    /// not match is skipped.
    fn resolve_by_name(&self, relation: &Relation, catalog: &Catalog) -> Table {
        let root = catalog.relation_facts(relation.oid).and_then(|facts| facts.root);
        let matches = self.filter.matches(&relation.schema, &relation.table)
            || root.is_some_and(|root| self.filter.matches(&root.schema, &root.name));
        match self.bench.route.bind(relation, &catalog.describe(relation.oid)) {
            Ok(bound) if matches => Table::Captured(bound),
            _ => Table::NotCaptured(NotSent::default()),
        }
    }

    fn rules(&self) -> Rules<'_> {
        Rules { filter: self.filter, route: &self.bench.route, captured: &self.known }
    }
}
