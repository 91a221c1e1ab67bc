use fancy_regex::Regex;

use super::catalog::TableFacts;
use super::{Error, TableOptions};

/// Which tables are captured: Debezium's include and exclude lists.
#[derive(Debug)]
pub struct TableFilter {
    schema_include: Vec<Regex>,
    schema_exclude: Vec<Regex>,
    table_include: Vec<Regex>,
    table_exclude: Vec<Regex>,
}

/// A list entry that is no regular expression.
#[derive(Debug, thiserror::Error)]
#[error("{option}: {pattern:?} is not a regular expression")]
pub struct InvalidPattern {
    /// The option.
    pub option: &'static str,
    /// The entry.
    pub pattern: String,
    /// Why.
    #[source]
    pub source: Box<fancy_regex::Error>,
}

impl TableFilter {
    /// Compiles the lists. Entries match the whole of `schema.table` (or of the schema) and ignore case, as Debezium's.
    ///
    /// # Errors
    /// When an entry is no regular expression.
    pub fn new(options: &TableOptions) -> Result<Self, InvalidPattern> {
        Ok(Self {
            schema_include: compile("schema.include.list", &options.schema_include)?,
            schema_exclude: compile("schema.exclude.list", &options.schema_exclude)?,
            table_include: compile("table.include.list", &options.table_include)?,
            table_exclude: compile("table.exclude.list", &options.table_exclude)?,
        })
    }

    /// Whether tables are named at all. If not, a table is captured for its columns.
    #[must_use]
    pub fn names_tables(&self) -> bool {
        !self.table_include.is_empty()
    }

    /// Whether a table of this name is captured, as far as names decide.
    #[must_use]
    pub fn matches(&self, schema: &str, table: &str) -> bool {
        let full = format!("{schema}.{table}");
        (self.schema_include.is_empty() || any(&self.schema_include, schema))
            && !any(&self.schema_exclude, schema)
            && (self.table_include.is_empty() || any(&self.table_include, &full))
            && !any(&self.table_exclude, &full)
    }

    /// The captured ones among `tables`. A partition is captured with its root and not named itself, unless it is
    /// matched and the root is not.
    ///
    /// # Errors
    /// When a captured table never reaches the WAL.
    pub fn captured<'t>(
        &self,
        tables: &'t [TableFacts],
        is_outbox: impl Fn(&TableFacts) -> bool,
    ) -> Result<Vec<&'t TableFacts>, Error> {
        let matched = |table: &TableFacts| {
            self.matches(&table.schema, &table.name) && (self.names_tables() || is_outbox(table))
        };
        let root_matched = |table: &TableFacts| {
            table.root.is_some_and(|root| tables.iter().any(|other| other.oid == root && matched(other)))
        };
        let captured: Vec<_> = tables.iter().filter(|table| matched(table) && !root_matched(table)).collect();
        match captured.iter().find(|table| !table.logged) {
            Some(table) => Err(Error::Precondition {
                problem: format!(
                    "table {}.{} is unlogged: its rows never reach the WAL",
                    table.schema, table.name
                ),
                cure: format!("ALTER TABLE {} SET LOGGED;", table.quoted()),
            }),
            None => Ok(captured),
        }
    }
}

impl TableFacts {
    /// The name as SQL wants it.
    #[must_use]
    pub fn quoted(&self) -> String {
        let quote = postgres_protocol::escape::escape_identifier;
        format!("{}.{}", quote(&self.schema), quote(&self.name))
    }
}

fn compile(option: &'static str, patterns: &[String]) -> Result<Vec<Regex>, InvalidPattern> {
    let compiled = patterns.iter().map(|pattern| {
        Regex::new(&format!("(?i)^(?:{pattern})$")).map_err(|source| InvalidPattern {
            option,
            pattern: pattern.clone(),
            source: Box::new(source),
        })
    });
    compiled.collect()
}

/// A pattern that gives up (too much backtracking) does not match.
fn any(patterns: &[Regex], text: &str) -> bool {
    patterns.iter().any(|pattern| pattern.is_match(text).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::Oid;

    fn filter(include: &[&str], exclude: &[&str]) -> TableFilter {
        let own = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
        let options = TableOptions {
            table_include: own(include),
            table_exclude: own(exclude),
            ..TableOptions::default()
        };
        TableFilter::new(&options).unwrap()
    }

    fn table(oid: u32, name: &str, root: Option<u32>) -> TableFacts {
        TableFacts {
            oid: Oid(oid),
            schema: "public".to_owned(),
            name: name.to_owned(),
            partitioned: false,
            root: root.map(Oid),
            logged: true,
            columns: Vec::new(),
        }
    }

    #[test]
    fn patterns_are_anchored_and_ignore_case() {
        let cases = [
            ("public.outbox", "public", "outbox", true),
            ("public.outbox", "public", "outbox_old", false),
            ("public.outbox", "xpublic", "outbox", false),
            ("public\\.outbox.*", "public", "outbox_old", true),
            ("PUBLIC.OutBox", "public", "outbox", true),
            ("public.Out Box", "public", "Out Box", true),
            ("public.(?!audit).*", "public", "outbox", true),
            ("public.(?!audit).*", "public", "audit", false),
        ];
        for (pattern, schema, name, expected) in cases {
            assert_eq!(filter(&[pattern], &[]).matches(schema, name), expected, "{pattern} {schema}.{name}");
        }
        assert!(!filter(&["public.*"], &["public.outbox"]).matches("public", "outbox"));
    }

    #[test]
    fn a_partition_goes_with_its_root() {
        let tables = [table(1, "outbox", None), table(2, "outbox_1", Some(1)), table(3, "other", None)];
        let names = |filter: &TableFilter| -> Vec<String> {
            filter.captured(&tables, |_| false).unwrap().iter().map(|t| t.name.clone()).collect()
        };
        assert_eq!(names(&filter(&["public.outbox.*"], &[])), ["outbox"]);
        assert_eq!(names(&filter(&["public.outbox_1"], &[])), ["outbox_1"]);
        assert_eq!(names(&filter(&[], &[])), Vec::<String>::new());
    }
}
