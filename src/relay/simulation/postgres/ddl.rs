//! Alterations of the catalog while rows are written, in a transaction of its own.

use fastrand::Rng;

use super::catalog::{CapturedBy, Catalog, CatalogTable, Columns};
use super::wal::Wal;
use crate::relay::simulation::oracle::truth::Truth;
use crate::wal::Oid;

const FIRST: Oid = Oid(16_384);
/// A table of something else.
pub(super) const ORDERS: Oid = Oid(16_400);
const FIRST_MADE: u32 = 16_500;

/// The names that a table or partition that is made may have.
const PARTITIONS: [&str; 3] = ["outbox_p1", "outbox_p2", "outbox_p3"];
const ALIKE: &str = "outbox_copy";
const OLD: &str = "outbox_old";

/// More tables are not made.
const TABLES_MAX: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay::simulation) enum Ddl {
    /// The columns have another order.
    ReorderColumns,
    RenameTable,
    MoveTable,
    /// A column that the router needs has another name, or its own again.
    RenameColumn,
    /// The table is dropped, and another has its name.
    MakeAnew,
    /// The table is renamed, and another has its name.
    Replace,
    AddPartition,
    AttachPartition,
    DetachPartition,
    /// A partition, or another table than the application writes to.
    DropTable,
    /// Another table with the same columns.
    MakeAlike,
    /// A table of something else gets the columns of an outbox, or its own again.
    BecomeAlike,
}

/// Alterations of a seed.
pub(in crate::relay::simulation) const DDL: [Ddl; 11] = [
    Ddl::RenameTable,
    Ddl::MoveTable,
    Ddl::RenameColumn,
    Ddl::MakeAnew,
    Ddl::Replace,
    Ddl::AddPartition,
    Ddl::AttachPartition,
    Ddl::DetachPartition,
    Ddl::DropTable,
    Ddl::MakeAlike,
    Ddl::BecomeAlike,
];

/// Gives tables their object ids. It never goes back, even if the history does.
#[derive(Debug)]
pub(in crate::relay::simulation) struct Oids(u32);

impl Oids {
    pub(in crate::relay::simulation) const fn new() -> Self {
        Self(FIRST_MADE)
    }

    const fn next(&mut self) -> Oid {
        self.0 += 1;
        Oid(self.0)
    }
}

impl Wal {
    /// Alters the catalog in a transaction.
    pub(in crate::relay::simulation) fn alter(&mut self, ddl: Ddl, rng: &mut Rng, truth: &mut Truth) {
        let before = self.catalog.tables.clone();
        let mut catalog = (*self.catalog).clone();
        catalog.alter(ddl, &mut self.oids, rng);
        if catalog.tables == before {
            return;
        }
        truth.report(|| format!("  {ddl:?} at {}: {catalog:?}", self.end));
        truth.altered(&catalog, self.captured_by);
        self.set_catalog(catalog);
    }

    /// Adds tables to the publication, as a start does. What was written to them before is not in the stream.
    pub(in crate::relay::simulation) fn publish(&mut self, tables: &[Oid], truth: &mut Truth) {
        let mut catalog = (*self.catalog).clone();
        let missing = tables
            .iter()
            .filter(|oid| catalog.get(**oid).is_some_and(|table| catalog.published(table).is_none()));
        let missing: Vec<Oid> = missing.copied().collect();
        if !missing.is_empty() {
            truth.report(|| format!("  {missing:?} are published"));
            catalog.members.extend(missing);
            self.set_catalog(catalog);
        }
    }

    /// Gives every column the name that the router needs, as an operator would.
    pub(in crate::relay::simulation) fn mend_columns(&mut self, truth: &mut Truth) {
        let mut catalog = (*self.catalog).clone();
        for table in &mut catalog.tables {
            if let Columns::Outbox { renamed, .. } = &mut table.columns {
                *renamed = false;
            }
        }
        if catalog.tables != self.catalog.tables {
            truth.altered(&catalog, self.captured_by);
            self.set_catalog(catalog);
        }
    }
}

impl Catalog {
    pub(in crate::relay::simulation) fn new(rng: &mut Rng) -> Self {
        let (partitioned, columns) = (rng.bool(), Columns::Outbox { shape: 0, renamed: false });
        let table = |oid, name, columns| CatalogTable {
            oid,
            schema: "public",
            name,
            columns,
            partitioned: false,
            root: None,
        };
        let outbox = CatalogTable { partitioned, ..table(FIRST, "outbox", columns) };
        let orders = table(ORDERS, "orders", Columns::Orders);
        let partition = CatalogTable { root: Some(FIRST), ..table(Oid(FIRST.0 + 1), PARTITIONS[0], columns) };
        let mut tables = vec![outbox, orders];
        tables.extend(partitioned.then_some(partition));
        let (all_tables, via_root) = (rng.u8(..) < 80, rng.bool());
        let mut members = Vec::new();
        if !all_tables {
            members.push(FIRST);
            members.extend(rng.bool().then_some(ORDERS));
        }
        Self { tables, outbox: FIRST, all_tables, via_root, members }
    }

    fn alter(&mut self, ddl: Ddl, oids: &mut Oids, rng: &mut Rng) {
        let Some(outbox) = self.get(self.outbox).copied() else { return };
        match ddl {
            Ddl::ReorderColumns => self.alter_outbox(|shape, _| *shape ^= 1),
            Ddl::RenameColumn => self.alter_outbox(|_, renamed| *renamed ^= true),
            Ddl::RenameTable => {
                let name = if outbox.name == OLD { "outbox" } else { OLD };
                self.rename(outbox.oid, outbox.schema, name);
            }
            Ddl::MoveTable => {
                let schema = if outbox.schema == "public" { "archive" } else { "public" };
                self.rename(outbox.oid, schema, outbox.name);
            }
            Ddl::MakeAnew => {
                self.drop_table(outbox.oid);
                self.make_outbox(outbox, oids);
            }
            Ddl::Replace => {
                if self.tables.len() < TABLES_MAX && self.rename(outbox.oid, outbox.schema, OLD) {
                    self.make_outbox(outbox, oids);
                }
            }
            Ddl::AddPartition => self.add_partition(outbox, oids),
            Ddl::AttachPartition if outbox.partitioned => {
                let fits = |table: &&mut CatalogTable| {
                    table.oid != outbox.oid
                        && !table.partitioned
                        && table.root.is_none()
                        && table.columns == outbox.columns
                };
                if let Some(table) = self.tables.iter_mut().find(fits) {
                    table.root = Some(outbox.oid);
                }
            }
            Ddl::DetachPartition => {
                if let Some(table) = self.spare_partition(rng) {
                    self.tables
                        .iter_mut()
                        .filter(|other| other.oid == table)
                        .for_each(|other| other.root = None);
                }
            }
            Ddl::DropTable => {
                let others = self
                    .tables
                    .iter()
                    .filter(|table| table.oid != outbox.oid && table.root.is_none() && table.oid != ORDERS);
                let others: Vec<Oid> =
                    others.map(|table| table.oid).chain(self.spare_partition(rng)).collect();
                if let Some(table) = rng.choice(others) {
                    self.drop_table(table);
                }
            }
            Ddl::MakeAlike if self.is_free("public", ALIKE) && self.tables.len() < TABLES_MAX => {
                let oid = oids.next();
                let alike = CatalogTable { oid, schema: "public", name: ALIKE, partitioned: false, ..outbox };
                self.tables.push(alike);
                if !self.all_tables && rng.bool() {
                    self.members.push(oid);
                }
            }
            Ddl::BecomeAlike => {
                let orders =
                    self.tables.iter_mut().filter(|table| table.oid == ORDERS && table.root.is_none());
                orders.for_each(|table| {
                    table.columns = match table.columns {
                        Columns::Orders => Columns::Outbox { shape: 0, renamed: false },
                        Columns::Outbox { .. } => Columns::Orders,
                    };
                });
            }
            Ddl::AttachPartition | Ddl::MakeAlike => {}
        }
    }

    fn alter_outbox(&mut self, change: impl Fn(&mut usize, &mut bool)) {
        let outbox = self.outbox;
        for table in &mut self.tables {
            if let (true, Columns::Outbox { shape, renamed }) =
                (table.oid == outbox || table.root == Some(outbox), &mut table.columns)
            {
                change(shape, renamed);
            }
        }
    }

    fn is_free(&self, schema: &str, name: &str) -> bool {
        !self.tables.iter().any(|table| (table.schema, table.name) == (schema, name))
    }

    fn rename(&mut self, oid: Oid, schema: &'static str, name: &'static str) -> bool {
        let free = self.is_free(schema, name);
        if let Some(table) = self.tables.iter_mut().find(|table| free && table.oid == oid) {
            (table.schema, table.name) = (schema, name);
        }
        free
    }

    fn drop_table(&mut self, oid: Oid) {
        self.tables.retain(|table| table.oid != oid && table.root != Some(oid));
        let Self { tables, members, .. } = self;
        members.retain(|member| tables.iter().any(|table| table.oid == *member));
    }

    /// Creates another table like the outbox, published like it.
    fn make_outbox(&mut self, before: CatalogTable, oids: &mut Oids) {
        self.outbox = oids.next();
        let columns = Columns::Outbox { shape: 0, renamed: false };
        let outbox = CatalogTable { oid: self.outbox, columns, ..before };
        self.tables.push(outbox);
        if !self.all_tables {
            self.members.push(self.outbox);
        }
        self.add_partition(outbox, oids);
    }

    fn add_partition(&mut self, outbox: CatalogTable, oids: &mut Oids) {
        let name = PARTITIONS.into_iter().find(|name| self.is_free(outbox.schema, name));
        let Some(name) = name.filter(|_| outbox.partitioned) else { return };
        let (oid, root) = (oids.next(), Some(outbox.oid));
        self.tables.push(CatalogTable { oid, name, root, partitioned: false, ..outbox });
    }

    /// Returns a partition of the outbox that is not its only one.
    fn spare_partition(&self, rng: &mut Rng) -> Option<Oid> {
        let partitions: Vec<Oid> = self.partitions(self.outbox).map(|table| table.oid).collect();
        rng.choice(partitions.get(1..)?.to_vec())
    }
}

impl CapturedBy {
    pub(in crate::relay::simulation) fn any(rng: &mut Rng) -> Self {
        if rng.bool() { Self::List } else { Self::Columns }
    }
}
