//! The model of PostgreSQL's catalog, as it is at one point of the WAL.

use crate::connect::column::{ColumnDescription, TypeKind};
use crate::pgoutput::{Column, Relation, ReplicaIdentity};
use crate::postgres::{
    FoundTable, Member, NamedTable, PublicationVersion, RelationFacts, Storage, TableFacts, TableVersion,
};
use crate::wal::Oid;

pub(in crate::relay::simulation) const PUBLICATION: &str = "p";

/// The orders that an outbox table's columns come in: one was dropped and added again.
const SHAPES: [[&str; 5]; 2] = [
    ["id", "aggregatetype", "aggregateid", "type", "payload"],
    ["id", "type", "aggregatetype", "payload", "aggregateid"],
];
const PAYLOAD_RENAMED: &str = "body";
/// Columns of a table that is no outbox.
const ORDERS: [&str; 5] = ["id", "customer", "total", "paid", "note"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay::simulation) struct CatalogTable {
    pub(in crate::relay::simulation) oid: Oid,
    pub(in crate::relay::simulation) schema: &'static str,
    pub(in crate::relay::simulation) name: &'static str,
    pub(in crate::relay::simulation) columns: Columns,
    pub(in crate::relay::simulation) partitioned: bool,
    /// The table that it is a partition of.
    pub(in crate::relay::simulation) root: Option<Oid>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay::simulation) enum Columns {
    /// An outbox's, in one of the orders, with the payload's column as the router wants it or renamed.
    Outbox {
        shape: usize,
        renamed: bool,
    },
    Orders,
}

/// Criterion by which a table is captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay::simulation) enum CapturedBy {
    /// `table.include.list=public.outbox`
    List,
    /// Its columns: no table is listed.
    Columns,
}

#[derive(Debug, Clone)]
pub(in crate::relay::simulation) struct Catalog {
    pub(in crate::relay::simulation) tables: Vec<CatalogTable>,
    /// Table that the application writes its events to.
    pub(in crate::relay::simulation) outbox: Oid,
    pub(super) all_tables: bool,
    pub(super) via_root: bool,
    /// The tables that the publication names.
    pub(super) members: Vec<Oid>,
}

impl Columns {
    pub(in crate::relay::simulation) fn names(self) -> [&'static str; 5] {
        match self {
            Self::Outbox { shape, renamed } => {
                SHAPES[shape].map(|name| if renamed && name == "payload" { PAYLOAD_RENAMED } else { name })
            }
            Self::Orders => ORDERS,
        }
    }

    pub(in crate::relay::simulation) const fn is_outbox(self) -> bool {
        matches!(self, Self::Outbox { renamed: false, .. })
    }
}

impl CatalogTable {
    /// Returns whether a relay that sees it like this must capture it.
    pub(in crate::relay::simulation) fn is_captured(&self, by: CapturedBy) -> bool {
        match by {
            CapturedBy::List => (self.schema, self.name) == ("public", "outbox"),
            CapturedBy::Columns => self.columns.is_outbox(),
        }
    }

    /// Returns it as the stream describes it.
    pub(in crate::relay::simulation) fn relation(&self) -> Relation {
        let column = |name: &str| Column {
            name: name.to_owned(),
            type_oid: Oid(1043),
            type_modifier: -1,
            in_identity: name == "id",
        };
        Relation {
            oid: self.oid,
            schema: self.schema.to_owned(),
            table: self.name.to_owned(),
            replica_identity: ReplicaIdentity::Default,
            columns: self.columns.names().map(column).into(),
        }
    }

    fn facts(&self) -> TableFacts {
        TableFacts {
            oid: self.oid,
            schema: self.schema.to_owned(),
            name: self.name.to_owned(),
            partitioned: self.partitioned,
            root: self.root,
            logged: true,
            columns: self.columns.names().map(str::to_owned).into(),
        }
    }

    fn named(&self) -> NamedTable {
        NamedTable { oid: self.oid, schema: self.schema.to_owned(), name: self.name.to_owned() }
    }
}

impl Catalog {
    pub(in crate::relay::simulation) fn get(&self, oid: Oid) -> Option<&CatalogTable> {
        self.tables.iter().find(|table| table.oid == oid)
    }

    pub(in crate::relay::simulation) fn partitions(&self, root: Oid) -> impl Iterator<Item = &CatalogTable> {
        self.tables.iter().filter(move |table| table.root == Some(root))
    }

    /// Returns the table as which the stream names its rows: itself or its root. Returns `None` when they are
    /// not published.
    pub(in crate::relay::simulation) fn published(&self, table: &CatalogTable) -> Option<CatalogTable> {
        let root = table.root.and_then(|root| self.get(root));
        let named = |table: &CatalogTable| self.all_tables || self.members.contains(&table.oid);
        match root.filter(|root| named(root)) {
            Some(root) if self.via_root => Some(*root),
            Some(_) => Some(*table),
            None => named(table).then_some(*table),
        }
    }

    // What the relay asks for.

    pub(in crate::relay::simulation) fn relation_facts(&self, oid: Oid) -> Option<RelationFacts> {
        let table = self.get(oid)?;
        Some(RelationFacts {
            schema: table.schema.to_owned(),
            name: table.name.to_owned(),
            root: table.root.and_then(|root| self.get(root)).map(CatalogTable::named),
            inherits: table.root.is_some(),
        })
    }

    pub(in crate::relay::simulation) fn table_facts(&self) -> Vec<TableFacts> {
        self.tables.iter().map(CatalogTable::facts).collect()
    }

    pub(in crate::relay::simulation) fn table_versions(&self, roots: &[Oid]) -> Vec<TableVersion> {
        let wanted = |table: &&CatalogTable| {
            roots.contains(&table.oid) || table.root.is_some_and(|root| roots.contains(&root))
        };
        let version = |table: &CatalogTable| TableVersion {
            oid: table.oid,
            root: table.root.filter(|root| roots.contains(root)).unwrap_or(table.oid),
            schema: table.schema.to_owned(),
            name: table.name.to_owned(),
            parent: table.root.map(|root| root.0.to_string()),
            ancestors: table.root.into_iter().collect(),
            storage: Storage::Logged,
            filenode: table.oid,
            toast: Oid(0),
            sequences: Vec::new(),
        };
        self.tables.iter().filter(wanted).map(version).collect()
    }

    pub(in crate::relay::simulation) fn tables_named(&self, names: &[(&str, &str)]) -> Vec<FoundTable> {
        let wanted = |table: &&CatalogTable| names.contains(&(table.schema, table.name));
        let found = |table: &CatalogTable| FoundTable {
            table: table.named(),
            ancestors: table.root.into_iter().collect(),
        };
        self.tables.iter().filter(wanted).map(found).collect()
    }

    /// Returns the publication that was created as the `number`th.
    pub(in crate::relay::simulation) fn publication(&self, number: u32, asked: &[Oid]) -> PublicationVersion {
        let members = self.members.iter().filter(|oid| asked.contains(oid));
        let member = |table: &Oid| Member {
            oid: Oid(table.0 + 100_000),
            version: 7,
            table: *table,
            filtered: false,
            listed: false,
        };
        PublicationVersion {
            oid: Oid(number),
            version: number,
            owner: Oid(10),
            all_tables: self.all_tables,
            inserts: true,
            operations: "insert".to_owned(),
            via_root: self.via_root,
            others: self.members.iter().any(|oid| !asked.contains(oid)),
            members: members.map(member).collect(),
            schemas: Vec::new(),
        }
    }

    pub(in crate::relay::simulation) fn describe(&self, oid: Oid) -> Vec<ColumnDescription> {
        let description = |name: &str| ColumnDescription {
            name: name.to_owned(),
            type_oid: Oid(1043),
            type_modifier: -1,
            kind: TypeKind::base("varchar"),
            not_null: true,
            default: None,
            key_position: (name == "id").then_some(1),
        };
        self.get(oid).map_or_else(Vec::new, |table| table.columns.names().map(description).into())
    }
}
