//! Filters and names of tables in signals.

use fancy_regex::Regex;

use connect_data::java;

/// A filter for the rows of a table, and a regular expression for the names of its tables.
#[derive(Debug, Clone)]
pub struct Condition {
    table: String,
    pattern: Regex,
    filter: String,
}

impl Condition {
    /// Compiles the expression; returns `None` if it is invalid.
    pub fn new(table: &str, filter: String) -> Option<Self> {
        let pattern = java::regex::compile_ignoring_case(table).ok()?;
        Some(Self { table: table.to_owned(), pattern, filter })
    }

    /// Returns the filter if it applies to this table.
    pub fn of(&self, table: &str) -> Option<&str> {
        let is_for = self.pattern.is_match(table).unwrap_or(false) || unquoted(&self.table) == table;
        is_for.then_some(self.filter.as_str())
    }
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        (&self.table, &self.filter) == (&other.table, &other.filter)
    }
}

/// Expands a list of names and regular expressions to the names of tables, each once. A name that matches
/// none may be quoted, as in `public."My.Table"`; otherwise it is returned unchanged.
pub fn expand(names: &[String], known: &[String]) -> Vec<String> {
    let mut expanded: Vec<String> = Vec::new();
    for name in names {
        let pattern = java::regex::compile(name).ok().map(|(_, whole)| whole);
        let is_match = |table: &&String| {
            pattern.as_ref().is_some_and(|pattern| pattern.is_match(table).unwrap_or(false))
        };
        let mut matched: Vec<&String> = known.iter().filter(is_match).collect();
        if matched.is_empty() {
            let plain = unquoted(name);
            matched.push(known.iter().find(|table| **table == plain).unwrap_or(name));
        }
        for table in matched {
            if !expanded.contains(table) {
                expanded.push(table.clone());
            }
        }
    }
    expanded
}

/// Removes the quotes around the parts of a name; two quotes inside a part become one.
pub fn unquoted(name: &str) -> String {
    name.replace("\"\"", "\0").replace('"', "").replace('\0', "\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_the_tables_that_they_match() {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let known = own(&["public.a", "public.ab", "other.a", "public.My.\"Table"]);
        let expected = [
            (vec!["public.a"], vec!["public.a"]),
            (vec!["public.a.*"], vec!["public.a", "public.ab"]),
            (vec!["public.ab", "public.a.*"], vec!["public.ab", "public.a"]),
            (vec!["public.nope", "(", "\"b\""], vec!["public.nope", "(", "\"b\""]),
            (vec!["\"public\".\"a\"", "public.\"My.\"\"Table\""], vec!["public.a", "public.My.\"Table"]),
        ];
        for (names, tables) in expected {
            assert_eq!(expand(&own(&names), &known), tables);
        }
    }
}
