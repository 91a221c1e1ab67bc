//! `io.debezium.processors.reselect.ReselectColumnsPostProcessor`: values that the server did not send, and
//! nulls, are read from the table in its present state.

use postgres_protocol::escape::{escape_identifier, escape_literal};

use super::values::known;
use super::{BoundColumn, ChangeTable};
use crate::change::events::Connector;
use crate::change::row_change::{Row, RowChange};
use connect_data::column::ColumnDescription;
use connect_data::{NamePatterns, OptionReader, Refused};
use pg_replication::pgoutput::{ColumnValue, Relation};

const LIST: &str = "post.processors";
const CLASS: &str = "io.debezium.processors.reselect.ReselectColumnsPostProcessor";

/// Settings of the post processor.
#[derive(Debug)]
pub struct Reselect {
    owner: String,
    columns: Selected,
    /// `reselect.unavailable.values` (true)
    unavailable: bool,
    /// `reselect.null.values` (true)
    nulls: bool,
    /// `reselect.use.event.key` (false): the row is selected by the event's key instead of the primary key.
    event_key: bool,
    /// `reselect.error.handling.mode` (warn)
    fails: bool,
}

/// `reselect.columns.include.list`, or else `reselect.columns.exclude.list`: `schema.table:column`.
#[derive(Debug)]
enum Selected {
    All,
    Include(NamePatterns),
    Exclude(NamePatterns),
}

/// Columns of a table that are read, and those of its key.
#[derive(Debug)]
pub(in crate::change) struct Selection {
    /// The columns that are read, by their positions in the row and their names.
    columns: Vec<(usize, String)>,
    /// The columns that identify the row.
    key: Vec<(usize, String)>,
    table: String,
}

/// A query for a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookup {
    /// The statement.
    pub sql: String,
    /// The positions in the row of the columns that it selects.
    pub places: Vec<usize>,
}

/// The result of a [`Lookup`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reselected {
    /// The values of the row, by their positions in it; `None` for NULL.
    Values(Vec<(usize, Option<String>)>),
    /// The reason why there are no values: the row does not exist or cannot be read.
    Failed(String),
}

impl Reselect {
    /// Reads `post.processors` and the options of the post processor that it names; returns `None` if the
    /// option is not set.
    ///
    /// # Errors
    /// When it names several, one of another class, or an unsupported option is set.
    pub(in crate::change) fn read(options: &mut OptionReader<'_>) -> Result<Option<Self>, Refused> {
        let Some(list) = options.filled(LIST) else { return Ok(None) };
        let names: Vec<_> = list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        let [name] = names.as_slice() else {
            return Err(options.refuse(
                LIST,
                list.clone(),
                "one is enough: it reads all columns that it may",
            ));
        };
        // Debezium accepts both spellings.
        let owner = match options.filled(&format!("{LIST}.{name}.type")) {
            None if options.filled(&format!("{name}.type")).is_some() => (*name).to_owned(),
            _ => format!("{LIST}.{name}"),
        };
        let key = |option: &str| format!("{owner}.{option}");
        let class = options.text(&key("type")).unwrap_or_default();
        if class.trim() != CLASS {
            let reason = format!("there is no such post processor here, only {CLASS}");
            return Err(options.refuse(key("type"), class, reason));
        }
        if options.boolean(&key("reselect.cache.enabled"), false) {
            let reason = "there is no cache here: each value is read from the table";
            return Err(options.refuse(key("reselect.cache.enabled"), "true", reason));
        }
        let modes = [("warn", false), ("fail", true)];
        Ok(Some(Self {
            columns: Selected::read(options, &owner),
            unavailable: options.boolean(&key("reselect.unavailable.values"), true),
            nulls: options.boolean(&key("reselect.null.values"), true),
            event_key: options.boolean(&key("reselect.use.event.key"), false),
            fails: options.one_of(&key("reselect.error.handling.mode"), &modes, false),
            owner,
        }))
    }

    /// Returns the prefix of its options.
    pub fn owner(&self) -> &str {
        &self.owner
    }
}

impl Selected {
    fn read(options: &mut OptionReader<'_>, owner: &str) -> Self {
        let mut patterns = |option: &str| {
            let key = format!("{owner}.{option}");
            let list = options.filled(&key)?;
            let list: Vec<_> = list.split(',').map(|entry| entry.trim().to_owned()).collect();
            Some(NamePatterns::read(options, &key, &list))
        };
        let include = patterns("reselect.columns.include.list");
        let exclude = patterns("reselect.columns.exclude.list");
        match (include, exclude) {
            (Some(include), _) => Self::Include(include),
            (None, Some(exclude)) => Self::Exclude(exclude),
            (None, None) => Self::All,
        }
    }

    fn has(&self, table: &str, column: &str) -> bool {
        let name = format!("{table}:{column}");
        match self {
            Self::All => true,
            Self::Include(patterns) => patterns.matches(&name),
            Self::Exclude(patterns) => !patterns.matches(&name),
        }
    }
}

impl Selection {
    /// Selects the columns of a table that are read. Returns `None` if there are none, or no key identifies
    /// the table's rows.
    pub(in crate::change) fn bind(
        connector: &Connector,
        relation: &Relation,
        described: &[ColumnDescription],
        shown: &[BoundColumn],
        key: Option<&[BoundColumn]>,
    ) -> Option<Self> {
        let reselect = connector.options.reselect.as_ref()?;
        let table = format!("{}.{}", relation.schema, relation.table);
        let named = |column: &BoundColumn| (column.index, column.name.clone());
        let columns = shown.iter().filter(|column| reselect.columns.has(&table, &column.field));
        let columns: Vec<_> = columns.map(named).collect();
        let event_key: Vec<_> = key?.iter().map(named).collect();
        let key = if reselect.event_key { event_key } else { primary_key(described) };
        let quoted = |name: &str| escape_identifier(name);
        let table = format!("{}.{}", quoted(&relation.schema), quoted(&relation.table));
        (!columns.is_empty() && !key.is_empty()).then_some(Self { columns, key, table })
    }

    /// Returns the query for the wanted columns of a row. A key value that an update did not change is read
    /// from `old`.
    fn lookup(
        &self,
        row: Row<'_, '_>,
        old: Row<'_, '_>,
        wanted: impl Fn(&(usize, String)) -> bool,
    ) -> Option<Lookup> {
        let columns: Vec<_> = self.columns.iter().filter(|column| wanted(column)).collect();
        if columns.is_empty() {
            return None;
        }
        let mut conditions = Vec::new();
        for (place, name) in &self.key {
            let value = *row.get(*place)?;
            let literal =
                match known(old, *place).filter(|_| value == ColumnValue::UnchangedToast).unwrap_or(value) {
                    ColumnValue::Text(text) => escape_literal(std::str::from_utf8(text).ok()?),
                    // As in Debezium, it selects no row, and that is reported.
                    _ => "NULL".to_owned(),
                };
            conditions.push(format!("{} = {}", escape_identifier(name), literal.trim_start()));
        }
        let names: Vec<_> = columns.iter().map(|(_, name)| escape_identifier(name)).collect();
        let (names, conditions) = (names.join(", "), conditions.join(" AND "));
        let sql = format!("SELECT {names} FROM {} WHERE {conditions} LIMIT 1", self.table);
        Some(Lookup { sql, places: columns.iter().map(|(place, _)| *place).collect() })
    }
}

fn primary_key(described: &[ColumnDescription]) -> Vec<(usize, String)> {
    let mut key: Vec<_> = described
        .iter()
        .enumerate()
        .filter_map(|(place, column)| Some((column.key_position?, place, column.name.clone())))
        .collect();
    key.sort_unstable();
    key.into_iter().map(|(_, place, name)| (place, name)).collect()
}

impl ChangeTable {
    /// Returns the query that a change needs before its event is made.
    pub fn lookup(&self, change: RowChange<'_, '_>) -> Option<Lookup> {
        let (selection, reselect) = (self.selection.as_ref()?, self.connector.options.reselect.as_ref()?);
        let (old, row) = match change {
            RowChange::Insert(row) => (None, row),
            RowChange::Update(old, row) => (old, row),
            RowChange::Delete(_) | RowChange::Truncate => return None,
        };
        let old = old.map_or(&[] as &[_], crate::change::row_change::OldRow::columns);
        let has_default = |place: usize| {
            let column = self.columns.iter().find(|column| column.index == place);
            column.is_some_and(|column| column.codec.schema().default.is_some())
        };
        selection.lookup(row, old, |(place, _)| match row.get(*place) {
            Some(ColumnValue::Null) => reselect.nulls && !has_default(*place),
            Some(ColumnValue::UnchangedToast) => reselect.unavailable && known(old, *place).is_none(),
            _ => false,
        })
    }

    /// Reports whether the relay stops when a row cannot be read.
    #[must_use]
    pub fn must_reselect(&self) -> bool {
        self.connector.options.reselect.as_ref().is_some_and(|reselect| reselect.fails)
    }
}

impl Reselected {
    /// Returns the new row of a change with the values that were read.
    pub fn patch<'a>(&'a self, change: RowChange<'_, 'a>) -> Option<Vec<ColumnValue<'a>>> {
        let (RowChange::Insert(row) | RowChange::Update(_, row)) = change else { return None };
        let Self::Values(values) = self else { return None };
        let mut row = row.to_vec();
        for (place, value) in values {
            if let Some(column) = row.get_mut(*place) {
                *column = value.as_ref().map_or(ColumnValue::Null, |text| ColumnValue::Text(text.as_bytes()));
            }
        }
        Some(row)
    }
}

impl<'r, 'a> RowChange<'r, 'a> {
    /// Returns the same change with another new row.
    pub const fn with_row(self, row: Row<'r, 'a>) -> Self {
        match self {
            Self::Insert(_) => Self::Insert(row),
            Self::Update(old, _) => Self::Update(old, row),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(said: &[(&str, &str)]) -> Result<Option<Reselect>, String> {
        let find = |key: &str| {
            let key = key.strip_prefix("post.processors.").unwrap_or(key);
            said.iter().find(|(name, _)| *name == key).map(|(_, value)| (*value).to_owned())
        };
        OptionReader::alone(&find, Reselect::read).map_err(|error| error.to_string())
    }

    #[test]
    fn one_post_processor_is_known() {
        assert!(read(&[]).unwrap().is_none());
        let other = [("post.processors", "p"), ("p.type", "com.example.Mine")];
        assert!(read(&other).unwrap_err().contains("no such post processor"));
        assert!(read(&[("post.processors", "p,q"), ("p.type", CLASS)]).is_err());
        let cached = [("post.processors", "p"), ("p.type", CLASS), ("p.reselect.cache.enabled", "true")];
        assert!(read(&cached).unwrap_err().contains("no cache"));
        let reselect = read(&[
            ("post.processors", "p"),
            ("p.type", CLASS),
            ("p.reselect.columns.include.list", "PUBLIC.t:(a|b),public.u:.*"),
        ]);
        let reselect = reselect.unwrap().unwrap();
        let found = [("public.t", "a"), ("public.t", "c"), ("public.u", "c")]
            .map(|(table, column)| reselect.columns.has(table, column));
        assert_eq!((found, reselect.fails), ([true, false, true], false));
    }

    #[test]
    fn a_row_is_found_by_its_key() {
        let columns = vec![(0, "a\"".to_owned()), (2, "c".to_owned())];
        let key = vec![(1, "id".to_owned())];
        let selection = Selection { columns, key, table: "s.t".to_owned() };
        let row = [ColumnValue::Null, ColumnValue::Text(b"O'N"), ColumnValue::Text(b"x")];
        let lookup = selection.lookup(&row, &[], |(place, _)| row[*place] == ColumnValue::Null).unwrap();
        assert_eq!(lookup.sql, "SELECT \"a\"\"\" FROM s.t WHERE \"id\" = 'O''N' LIMIT 1");
        assert_eq!(lookup.places, [0]);
        assert!(selection.lookup(&row, &[], |_| false).is_none());
        let without = [ColumnValue::Null, ColumnValue::Null, ColumnValue::Null];
        let none = selection.lookup(&without, &[], |_| true).unwrap();
        assert_eq!(none.sql, "SELECT \"a\"\"\", \"c\" FROM s.t WHERE \"id\" = NULL LIMIT 1", "it is told");
        let unchanged = [ColumnValue::Null, ColumnValue::UnchangedToast, ColumnValue::Null];
        let by_old = selection.lookup(&unchanged, &row, |(place, _)| *place == 2).unwrap();
        assert_eq!(by_old.sql, "SELECT \"c\" FROM s.t WHERE \"id\" = 'O''N' LIMIT 1");
        let read = Reselected::Values(vec![(0, Some("new".to_owned())), (9, None)]);
        assert_eq!(read.patch(RowChange::Insert(&row)).unwrap()[0], ColumnValue::Text(b"new"));
    }
}
