//! Which column of a table is which one of a row that a statement of the user's has selected.

use crate::connect::column::ColumnDescription;
use crate::pgoutput::{ColumnValue, Tuple};
use crate::postgres::TableFacts;

/// Where each column stands in a row that was read; nowhere when it was not selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Selected(Vec<Option<usize>>);

impl Selected {
    /// Of these columns, when they were selected under these names, or `None` when a row has just them. As in Debezium the case
    /// of a name does not count, and of two the last one does.
    pub(super) fn new(columns: &[ColumnDescription], names: &[String]) -> Option<Self> {
        let places: Vec<_> = columns.iter().map(|column| place(&column.name, names)).collect();
        let is_as_read =
            places.len() == names.len() && (0..).map(Some).zip(&places).all(|(at, place)| at == *place);
        (!is_as_read).then_some(Self(places))
    }

    /// A row in the order of the columns. What was not selected is NULL.
    pub(super) fn row<'a>(&self, read: &Tuple<'a>) -> Tuple<'a> {
        self.0
            .iter()
            .map(|place| place.and_then(|place| read.get(place)).unwrap_or(ColumnValue::Null))
            .collect()
    }

    /// The same for values that are kept.
    pub(super) fn values(&self, read: &[Option<Vec<u8>>]) -> Vec<Option<Vec<u8>>> {
        self.0.iter().map(|place| place.and_then(|place| read.get(place).cloned().flatten())).collect()
    }
}

/// Those of the table's columns that were selected.
pub(super) fn of_table<'c>(
    columns: &'c [ColumnDescription],
    names: &[String],
) -> impl Iterator<Item = &'c ColumnDescription> {
    columns.iter().filter(|column| place(&column.name, names).is_some())
}

/// Tells of what was selected and is no column of the table: it is in no event.
pub(super) fn tell_others(table: &TableFacts, columns: &[ColumnDescription], names: &[String]) {
    for name in names.iter().filter(|name| !columns.iter().any(|column| is_called(&column.name, name))) {
        let table = format!("{}.{}", table.schema, table.name);
        tracing::warn!(table, column = name, "a selected column is no column of the table, and in no event");
    }
}

fn place(column: &str, names: &[String]) -> Option<usize> {
    let exact = names.iter().rposition(|name| name == column);
    exact.or_else(|| names.iter().rposition(|name| is_called(column, name)))
}

fn is_called(column: &str, name: &str) -> bool {
    column == name || column.to_lowercase() == name.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::column::TypeKind;
    use crate::wal::Oid;

    fn columns(names: &[&str]) -> Vec<ColumnDescription> {
        let column = |name: &&str| ColumnDescription {
            name: (*name).to_owned(),
            type_oid: Oid(25),
            type_modifier: -1,
            not_null: false,
            kind: TypeKind::base("text"),
            default: None,
            key_position: None,
        };
        names.iter().map(column).collect()
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn values_go_to_the_columns_of_their_names() {
        let table = columns(&["id", "v", "n"]);
        assert_eq!(Selected::new(&table, &names(&["id", "v", "n"])), None);
        type Case<'c> = (&'c [&'c str], &'c [&'c str], [Option<&'c str>; 3]);
        let cases: [Case<'_>; 4] = [
            (&["v", "n", "id"], &["a", "1", "7"], [Some("7"), Some("a"), Some("1")]),
            (&["other", "id", "v", "n"], &["x", "7", "a", "1"], [Some("7"), Some("a"), Some("1")]),
            (&["ID", "n"], &["7", "1"], [Some("7"), None, Some("1")]),
            (&["id", "v", "n", "id"], &["7", "a", "1", "8"], [Some("8"), Some("a"), Some("1")]),
        ];
        for (selected, read, expected) in cases {
            let selected = Selected::new(&table, &names(selected)).unwrap();
            let row: Tuple<'_> = read.iter().map(|text| ColumnValue::Text(text.as_bytes())).collect();
            let value = |text: Option<&'static str>| {
                text.map_or(ColumnValue::Null, |text| ColumnValue::Text(text.as_bytes()))
            };
            assert_eq!(selected.row(&row).columns(), expected.map(value));
            let kept: Vec<_> = read.iter().map(|text| Some(text.as_bytes().to_vec())).collect();
            assert_eq!(
                selected.values(&kept),
                expected.map(|text| text.map(|text| text.as_bytes().to_vec()))
            );
        }
        let found: Vec<_> = of_table(&table, &names(&["N", "x"])).map(|column| &column.name).collect();
        assert_eq!(found, ["n"]);
    }
}
