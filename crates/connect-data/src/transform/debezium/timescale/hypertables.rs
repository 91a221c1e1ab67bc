//! Hypertables of TimescaleDB's chunks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Name of a table, with its schema.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TableName {
    /// Schema of the table.
    pub schema: String,
    /// Name of the table, without its schema.
    pub name: String,
}

/// Content of TimescaleDB's catalog.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Hypertable of each chunk.
    pub chunks: HashMap<TableName, TableName>,
    /// Hypertables by their number.
    pub hypertables: HashMap<i32, TableName>,
    /// View of each continuous aggregate, by its hypertable.
    pub aggregates: HashMap<TableName, TableName>,
}

/// Hypertable of a chunk, and its continuous aggregate, if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) hypertable: TableName,
    pub(super) aggregate: Option<TableName>,
}

/// Owners of chunks. The component with a database connection must call [`Self::learn`] before the first record of a chunk.
#[derive(Debug, Clone)]
pub struct Hypertables {
    /// `schema.list` (`_timescaledb_internal`): schemas of the chunks.
    schemas: Arc<[String]>,
    catalog: Arc<Mutex<Catalog>>,
}

impl Hypertables {
    pub(super) fn new(schemas: Vec<String>) -> Self {
        Self { schemas: schemas.into(), catalog: Arc::default() }
    }

    /// Reports whether a table may be a chunk, but is not in the catalog.
    pub fn lacks(&self, table: &TableName) -> bool {
        self.schemas.contains(&table.schema) && !self.lock().chunks.contains_key(table)
    }

    /// Replaces the stored catalog. A chunk that is no longer in the catalog is assigned to its hypertable by its name, as
    /// in Debezium.
    pub fn learn(&self, catalog: Catalog) {
        *self.lock() = catalog;
    }

    /// Reports whether the hypertable of a chunk is known.
    pub fn knows(&self, chunk: &TableName) -> bool {
        self.owner(chunk).is_some()
    }

    pub(super) fn owner(&self, chunk: &TableName) -> Option<Owner> {
        if !self.schemas.contains(&chunk.schema) {
            return None;
        }
        let catalog = self.lock();
        let by_name = || catalog.hypertables.get(&hypertable_of(&chunk.name)?);
        let hypertable = catalog.chunks.get(chunk).or_else(by_name)?.clone();
        let aggregate = catalog.aggregates.get(&hypertable).cloned();
        Some(Owner { hypertable, aggregate })
    }

    fn lock(&self) -> MutexGuard<'_, Catalog> {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number of the hypertable in a chunk's name: 1 in `_hyper_1_2_chunk`.
fn hypertable_of(chunk: &str) -> Option<i32> {
    const DIGITS_MAX: usize = 9;
    let (hypertable, chunk) = chunk.strip_prefix("_hyper_")?.strip_suffix("_chunk")?.split_once('_')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let fits = is_number(hypertable) && is_number(chunk) && hypertable.len() <= DIGITS_MAX;
    fits.then(|| hypertable.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(schema: &str, name: &str) -> TableName {
        TableName { schema: schema.to_owned(), name: name.to_owned() }
    }

    #[test]
    fn the_name_of_a_chunk_has_the_number_of_its_hypertable() {
        let cases = [
            ("_hyper_1_2_chunk", Some(1)),
            ("_hyper_999999999_1_chunk", Some(999_999_999)),
            ("_hyper_1000000000_1_chunk", None),
            ("_hyper__1_chunk", None),
            ("_hyper_1__chunk", None),
            ("_hyper_1_2_3_chunk", None),
            ("_hyper_+1_2_chunk", None),
            ("compress_hyper_1_2_chunk", None),
            ("_hyper_1_2_chunks", None),
        ];
        for (name, expected) in cases {
            assert_eq!(hypertable_of(name), expected, "{name}");
        }
    }

    #[test]
    fn what_the_catalog_says_goes_before_the_name() {
        let hypertables = Hypertables::new(vec!["chunks".to_owned()]);
        let (named, other) = (table("chunks", "_hyper_1_1_chunk"), table("chunks", "other"));
        assert!(hypertables.lacks(&named) && !hypertables.lacks(&table("public", "_hyper_1_1_chunk")));
        assert!(!hypertables.knows(&named));
        let [one, two, view] = ["one", "two", "view"].map(|name| table("public", name));
        let catalog = Catalog {
            chunks: HashMap::from([(other.clone(), two.clone())]),
            hypertables: HashMap::from([(1, one.clone())]),
            aggregates: HashMap::from([(two.clone(), view.clone())]),
        };
        hypertables.learn(catalog);
        assert_eq!(hypertables.owner(&named), Some(Owner { hypertable: one, aggregate: None }));
        assert_eq!(hypertables.owner(&other), Some(Owner { hypertable: two, aggregate: Some(view) }));
        assert!(hypertables.owner(&table("public", "_hyper_1_1_chunk")).is_none());
        // It is asked for again: it may have got an entry since.
        assert!(hypertables.lacks(&named) && !hypertables.lacks(&other));
    }
}
