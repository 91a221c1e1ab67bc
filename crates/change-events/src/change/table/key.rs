//! The columns of a table's key.

use fancy_regex::Regex;

use connect_data::column::ColumnDescription;
use connect_data::{OptionReader, Refused, java};

pub(in crate::change) const MESSAGE_KEY_COLUMNS: &str = "message.key.columns";

/// `message.key.columns`: the columns of the keys of the tables that a pattern matches.
#[derive(Debug, Clone, Default)]
pub(in crate::change) struct KeyColumns(Vec<KeyColumn>);

/// One column of an entry. Debezium compiles `table.column` as one regular expression, so a column's name is
/// one too.
#[derive(Debug, Clone)]
struct KeyColumn {
    table: Regex,
    column: Regex,
    /// The column, as it is written in the option.
    written: String,
}

impl KeyColumns {
    /// Reads `schema.table:column,column;schema.table:column`, tables and columns as regular expressions.
    pub(in crate::change) fn read(options: &mut OptionReader<'_>, option: &str) -> Result<Self, Refused> {
        let Some(text) = options.filled(option) else { return Ok(Self::default()) };
        let mut keys = Vec::new();
        for entry in text.split(';').map(str::trim).filter(|entry| !entry.is_empty()) {
            let Some((table, columns)) = entry.rsplit_once(':') else {
                let reason = "it must be schema.table:column,column, with a semicolon between two tables";
                return Err(options.refuse(option, entry, reason));
            };
            for column in columns.split(',').map(str::trim) {
                let key = KeyColumn::compile(table, column).map_err(|(pattern, error)| {
                    options.refuse(option, entry, format!("{pattern:?} is no regular expression: {error}"))
                })?;
                keys.push(key);
            }
        }
        Ok(Self(keys))
    }

    /// Returns a note for each column that the option names and the table lacks.
    pub(super) fn missing(&self, schema: &str, table: &str, columns: &[ColumnDescription]) -> Vec<String> {
        let name = format!("{schema}.{table}");
        let lacks = |key: &&KeyColumn| columns.iter().all(|column| !key.is(&name, column));
        let tell = |key: &KeyColumn| {
            let KeyColumn { written, .. } = key;
            format!(
                "{MESSAGE_KEY_COLUMNS}: table {name} has no column \"{written}\": its keys are made without it"
            )
        };
        self.0.iter().filter(|key| matches(&key.table, &name)).filter(lacks).map(tell).collect()
    }

    /// Reports whether a pattern matches the table.
    pub(in crate::change) fn names(&self, schema: &str, table: &str) -> bool {
        let name = format!("{schema}.{table}");
        self.0.iter().any(|key| matches(&key.table, &name))
    }

    /// Returns the positions of the key's columns among a table's columns, in the key's order; empty if the
    /// table has no key.
    pub(in crate::change) fn of(
        &self,
        schema: &str,
        table: &str,
        columns: &[ColumnDescription],
    ) -> Vec<usize> {
        let name = format!("{schema}.{table}");
        let mut chosen = Vec::new();
        for key in &self.0 {
            for (index, column) in columns.iter().enumerate() {
                if !chosen.contains(&index) && key.is(&name, column) {
                    chosen.push(index);
                }
            }
        }
        if !chosen.is_empty() {
            return chosen;
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

impl KeyColumn {
    fn compile(table: &str, column: &str) -> Result<Self, (String, Box<fancy_regex::Error>)> {
        let compiled =
            |pattern: String| java::regex::compile_ignoring_case(&pattern).map_err(|error| (pattern, error));
        Ok(Self {
            table: compiled(table.to_owned())?,
            column: compiled(format!("{table}.{column}"))?,
            written: column.to_owned(),
        })
    }

    /// Reports whether `column` is a column of the key of `table`.
    fn is(&self, table: &str, column: &ColumnDescription) -> bool {
        matches(&self.column, &format!("{table}.{}", column.name))
    }
}

fn matches(pattern: &Regex, text: &str) -> bool {
    pattern.is_match(text).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use connect_data::column::TypeKind;
    use pg_replication::wal::Oid;

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
    fn patterns_name_columns_and_otherwise_the_index_does() {
        let columns = [column("a", Some(2)), column("b", Some(1)), column("c", None)];
        let option = r"crm\.contact.*:c,a; (.*).ticket:b; crm.contact_new:[a-b]; public.other:c$d";
        let lookup = |_: &str| Some(option.to_owned());
        let keys = KeyColumns::read(&mut OptionReader::new(&lookup), MESSAGE_KEY_COLUMNS).unwrap();
        let cases: [(&str, &str, &[usize], usize); 4] = [
            ("crm", "contact_old", &[2, 0], 0),
            ("crm", "contact_new", &[2, 0, 1], 0),
            ("public", "ticket", &[1], 0),
            ("public", "other", &[1, 0], 1),
        ];
        for (schema, table, expected, missing) in cases {
            assert_eq!(keys.of(schema, table, &columns), expected, "{schema}.{table}");
            assert_eq!(keys.missing(schema, table, &columns).len(), missing, "{schema}.{table}");
        }
        let [told] = &keys.missing("public", "ticket", &columns[..1])[..] else { panic!("b is missing") };
        assert!(told.contains("has no column \"b\""), "{told}");
    }

    #[test]
    fn what_is_no_list_of_keys_is_refused() {
        for text in ["public.a", "(:a", "public.a:("] {
            let lookup = |_: &str| Some(text.to_owned());
            assert!(
                KeyColumns::read(&mut OptionReader::new(&lookup), MESSAGE_KEY_COLUMNS).is_err(),
                "{text}"
            );
        }
    }
}
