//! Mapping from the columns of a table to those of a row that a statement of the user's has selected.

use crate::connect::column::ColumnDescription;
use crate::pgoutput::{ColumnValue, Tuple};
use crate::postgres::TableFacts;

/// Index of each column in a row that was read; none when it was not selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::relay) struct Selected(Vec<Option<usize>>);

impl Selected {
    /// Maps these columns to the selected names. Returns `None` when a row has exactly these columns. As in
    /// Debezium, names are compared without case, and of two equal ones the last counts.
    pub(in crate::relay) fn new(columns: &[ColumnDescription], names: &[String]) -> Option<Self> {
        let places: Vec<_> = columns.iter().map(|column| place(&column.name, names)).collect();
        let is_as_read =
            places.len() == names.len() && (0..).map(Some).zip(&places).all(|(at, place)| at == *place);
        (!is_as_read).then_some(Self(places))
    }

    /// Returns a row in the order of the columns. A column that was not selected is NULL.
    pub(in crate::relay) fn row<'a>(&self, read: &Tuple<'a>) -> Tuple<'a> {
        self.0
            .iter()
            .map(|place| place.and_then(|place| read.get(place)).unwrap_or(ColumnValue::Null))
            .collect()
    }

    /// Does the same for owned values.
    pub(in crate::relay) fn values(&self, read: &[Option<Vec<u8>>]) -> Vec<Option<Vec<u8>>> {
        self.0.iter().map(|place| place.and_then(|place| read.get(place).cloned().flatten())).collect()
    }
}

/// Returns those of the table's columns that were selected.
pub(in crate::relay) fn of_table<'c>(
    columns: &'c [ColumnDescription],
    names: &[String],
) -> impl Iterator<Item = &'c ColumnDescription> {
    columns.iter().filter(|column| place(&column.name, names).is_some())
}

/// Logs selected columns that are not in the table: they are in no event.
pub(in crate::relay) fn report_others(table: &TableFacts, columns: &[ColumnDescription], names: &[String]) {
    for name in names.iter().filter(|name| !columns.iter().any(|column| is_called(&column.name, name))) {
        let table = format!("{}.{}", table.schema, table.name);
        tracing::warn!(table, column = name, "a selected column does not exist in the table");
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
