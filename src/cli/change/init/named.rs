//! Tables that `--tables` names, converted for `table.include.list`. Sans-io.

use super::error::InitError;
use super::found::name;
use super::proposal::pattern;
use crate::connect::option::closest;
use crate::postgres::{TableFacts, TableFilter, TableOptions};

/// Returns the entries for `table.include.list`: the name of a table becomes an expression that matches only this
/// table, any other entry is an expression already.
///
/// # Errors
/// Returns an error when an entry names no table, or when a name without a schema names several.
pub(super) fn include_list(said: &str, all: &[TableFacts], database: &str) -> Result<Vec<String>, InitError> {
    let whole: Vec<_> = all.iter().filter(|table| table.root.is_none()).collect();
    let entries = split(said).into_iter().map(|entry| {
        let called = |wanted: &dyn Fn(&TableFacts) -> bool| -> Vec<String> {
            whole.iter().filter(|table| wanted(table)).map(|table| pattern(table)).collect()
        };
        let full = called(&|table| name(table) == entry);
        let short = if full.is_empty() { called(&|table| table.name == entry) } else { full };
        match short.as_slice() {
            [one] => Ok(one.clone()),
            [] if matches_any(&entry, all)? => Ok(entry),
            [] => Err(InitError::NoTables {
                closest: nearest(&entry, &whole),
                entry,
                database: database.to_owned(),
            }),
            _ => {
                let tables = whole.iter().filter(|table| table.name == entry).map(|table| name(table));
                Err(InitError::Ambiguous { tables: tables.collect(), entry })
            }
        }
    });
    let entries: Vec<_> = entries.collect::<Result<_, _>>()?;
    if entries.is_empty() {
        return Err(InitError::NoneNamed);
    }
    Ok(entries)
}

/// Splits at commas. `\,` is a comma of an expression, and is not changed.
fn split(said: &str) -> Vec<String> {
    let mut entries = vec![String::new()];
    let mut is_escaped = false;
    for c in said.chars() {
        if c == ',' && !is_escaped {
            entries.push(String::new());
        } else if let Some(entry) = entries.last_mut() {
            entry.push(c);
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    let trimmed = entries.iter().map(|entry| entry.trim().to_owned());
    trimmed.filter(|entry| !entry.is_empty()).collect()
}

fn matches_any(entry: &str, all: &[TableFacts]) -> Result<bool, InitError> {
    let table_include = vec![entry.replace("\\,", ",")];
    let options = TableOptions { table_include, ..TableOptions::default() };
    let filter = TableFilter::new(&options).map_err(|error| InitError::Pattern(error.reason))?;
    Ok(all.iter().any(|table| filter.matches(&table.schema, &table.name)))
}

fn nearest(entry: &str, all: &[&TableFacts]) -> Option<String> {
    let full = closest(entry, all.iter().map(|table| name(table)));
    full.or_else(|| {
        let short = closest(entry, all.iter().map(|table| table.name.clone()))?;
        all.iter().find(|table| table.name == short).map(|table| name(table))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::Oid;

    fn table(oid: u32, schema: &str, name: &str) -> TableFacts {
        TableFacts {
            oid: Oid(oid),
            schema: schema.to_owned(),
            name: name.to_owned(),
            partitioned: false,
            root: None,
            logged: true,
            columns: Vec::new(),
        }
    }

    #[test]
    fn names_become_expressions_and_expressions_stay() {
        let all = [
            table(1, "public", "orders"),
            table(2, "public", "lines"),
            table(3, "sales", "lines"),
            table(4, "public", "a$b"),
        ];
        let list = |said: &str| include_list(said, &all, "shop");
        let cases = [
            ("public.orders, sales.lines", vec!["public.orders", "sales.lines"]),
            ("orders", vec!["public.orders"]),
            ("public.a$b", vec!["public.a\\$b"]),
            (r"public\..*", vec![r"public\..*"]),
            (r"public.or.{2\,9}", vec![r"public.or.{2\,9}"]),
        ];
        for (said, expected) in cases {
            assert_eq!(list(said).unwrap(), expected, "{said}");
        }
        let told = |said: &str| list(said).unwrap_err().to_string();
        assert!(told("lines").contains("public.lines, sales.lines"), "{}", told("lines"));
        assert!(told("public.order").contains("\"public.order\""), "{}", told("public.order"));
        assert!(told(" , ").contains("--tables"), "{}", told(" , "));
        assert!(told("(").contains("regular expression"), "{}", told("("));
        let Err(InitError::NoTables { closest, .. }) = list("ordrs") else { panic!("it is no table") };
        assert_eq!(closest.as_deref(), Some("public.orders"));
    }
}
