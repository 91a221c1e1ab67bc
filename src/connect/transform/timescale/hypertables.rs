use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A table and its schema.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TableName {
    pub(crate) schema: String,
    pub(crate) name: String,
}

/// What TimescaleDB's catalog says.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    /// Each chunk, and its hypertable.
    pub(crate) chunks: HashMap<TableName, TableName>,
    /// The hypertables by their number.
    pub(crate) hypertables: HashMap<i32, TableName>,
    /// The hypertables of continuous aggregates, and the view of each.
    pub(crate) aggregates: HashMap<TableName, TableName>,
}

/// What a chunk belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) hypertable: TableName,
    pub(super) aggregate: Option<TableName>,
}

/// Which chunk belongs to what. Who has a connection fills it, before the first record of a chunk comes.
#[derive(Debug, Clone)]
pub(crate) struct Hypertables {
    /// `schema.list` (`_timescaledb_internal`): where chunks are.
    schemas: Arc<[String]>,
    catalog: Arc<Mutex<Catalog>>,
}

impl Hypertables {
    pub(super) fn new(schemas: Vec<String>) -> Self {
        Self { schemas: schemas.into(), catalog: Arc::default() }
    }

    /// Whether a table may be a chunk, and it is not known of which hypertable.
    pub(crate) fn lacks(&self, table: &TableName) -> bool {
        self.schemas.contains(&table.schema) && !self.lock().chunks.contains_key(table)
    }

    /// Takes what the catalog says in the place of what it said before. A chunk that is not there any more tells its hypertable
    /// by its name, as in Debezium.
    pub(crate) fn learn(&self, catalog: Catalog) {
        *self.lock() = catalog;
    }

    /// Whether it is known what a chunk belongs to.
    pub(crate) fn knows(&self, chunk: &TableName) -> bool {
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

/// The number of the hypertable in a chunk's name: `_hyper_1_2_chunk`.
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
