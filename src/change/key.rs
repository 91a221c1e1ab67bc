//! Which columns a table's key is made of.

use fancy_regex::Regex;

use crate::connect::column::ColumnDescription;
use crate::connect::{OptionReader, Refused, java_regex};

pub(super) const MESSAGE_KEY_COLUMNS: &str = "message.key.columns";

/// `message.key.columns`: for the tables that a pattern matches, the columns of their keys.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyColumns(Vec<(Regex, Vec<String>)>);

impl KeyColumns {
    /// Reads `schema.table:column,column;schema.table:column`, each table a regular expression.
    pub(super) fn read(options: &mut OptionReader<'_>, option: &str) -> Result<Self, Refused> {
        let Some(text) = options.filled(option) else { return Ok(Self::default()) };
        let mut keys = Vec::new();
        for entry in text.split(';').map(str::trim).filter(|entry| !entry.is_empty()) {
            let Some((table, columns)) = entry.rsplit_once(':') else {
                let reason = "it must be schema.table:column,column, with a semicolon between two tables";
                return Err(options.refuse(option, entry, reason));
            };
            let pattern = java_regex::compile_ignoring_case(table.trim()).map_err(|error| {
                options.refuse(option, entry, format!("{table:?} is no regular expression: {error}"))
            })?;
            keys.push((pattern, columns.split(',').map(|column| column.trim().to_owned()).collect()));
        }
        Ok(Self(keys))
    }

    /// Columns that a pattern names and the table lacks, one line each.
    pub(super) fn missing(&self, schema: &str, table: &str, columns: &[ColumnDescription]) -> Vec<String> {
        let name = format!("{schema}.{table}");
        let lacks = |column: &&String| columns.iter().all(|known| known.name != **column);
        let tell = |column: &String| {
            format!(
                "{MESSAGE_KEY_COLUMNS}: table {name} has no column \"{column}\": its keys are made without it"
            )
        };
        self.chosen(&name).unwrap_or_default().iter().filter(lacks).map(tell).collect()
    }

    /// Whether a pattern matches the table.
    pub(super) fn names(&self, schema: &str, table: &str) -> bool {
        self.chosen(&format!("{schema}.{table}")).is_some()
    }

    fn chosen(&self, name: &str) -> Option<&[String]> {
        let (_, columns) = self.0.iter().find(|(pattern, _)| pattern.is_match(name).unwrap_or(false))?;
        Some(columns)
    }

    /// Where the key's columns are among a table's columns, in the key's order. Empty when the table has no key.
    pub(super) fn of(&self, schema: &str, table: &str, columns: &[ColumnDescription]) -> Vec<usize> {
        let name = format!("{schema}.{table}");
        if let Some(names) = self.chosen(&name) {
            let position = |name: &String| columns.iter().position(|column| column.name == *name);
            return names.iter().filter_map(position).collect();
        }
        let mut key: Vec<_> = columns
            .iter()
            .enumerate()
            .filter_map(|(index, column)| Some((column.key_position?, index)))
            .collect();
        key.sort_unstable();
        key.into_iter().map(|(_, index)| index).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::column::TypeKind;
    use crate::wal::Oid;

    fn column(name: &str, key_position: Option<i64>) -> ColumnDescription {
        ColumnDescription {
            name: name.to_owned(),
            type_oid: Oid(23),
            type_modifier: -1,
            kind: TypeKind::base("int4"),
            not_null: true,
            default: None,
            key_position,
        }
    }

    #[test]
    fn the_first_pattern_decides_and_otherwise_the_index() {
        let columns = [column("a", Some(2)), column("b", Some(1)), column("c", None)];
        let option = r"crm\.contact.*:c,a; (.*).ticket:b";
        let lookup = |_: &str| Some(option.to_owned());
        let keys = KeyColumns::read(&mut OptionReader::new(&lookup), MESSAGE_KEY_COLUMNS).unwrap();
        let cases: [(&str, &str, &[usize]); 3] =
            [("crm", "contact_old", &[2, 0]), ("public", "ticket", &[1]), ("public", "other", &[1, 0])];
        for (schema, table, expected) in cases {
            assert_eq!(keys.of(schema, table, &columns), expected, "{schema}.{table}");
            assert!(keys.missing(schema, table, &columns).is_empty());
        }
        let [told] = &keys.missing("public", "ticket", &columns[..1])[..] else { panic!("b is missing") };
        assert!(told.contains("has no column \"b\""), "{told}");
    }

    #[test]
    fn what_is_no_list_of_keys_is_refused() {
        for text in ["public.a", "(:a"] {
            let lookup = |_: &str| Some(text.to_owned());
            assert!(
                KeyColumns::read(&mut OptionReader::new(&lookup), MESSAGE_KEY_COLUMNS).is_err(),
                "{text}"
            );
        }
    }
}
