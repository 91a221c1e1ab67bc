//! Rules for columns by their names: some columns are excluded, some are shown in another form.

use super::ColumnDescription;
use super::mapper::Mapper;
use crate::NamePatterns;

/// `column.include.list` or `column.exclude.list`.
#[derive(Debug, Clone, Default)]
pub enum ColumnFilter {
    /// Every column is included.
    #[default]
    All,
    /// Only columns that match `schema.table.column`.
    Include(NamePatterns),
    /// All columns but those that match.
    Exclude(NamePatterns),
}

impl ColumnFilter {
    /// Returns the option that excludes a column of a table (`schema.table`), if one does.
    #[must_use]
    pub fn leaves_out(&self, table: &str, column: &str) -> Option<&'static str> {
        let name = format!("{table}.{column}");
        match self {
            Self::Include(patterns) if !patterns.matches(&name) => Some("column.include.list"),
            Self::Exclude(patterns) if patterns.matches(&name) => Some("column.exclude.list"),
            _ => None,
        }
    }
}

/// Name with which a rule's patterns are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleSubject {
    /// `schema.table.column`
    Name,
    /// `schema.table.type`, with the type name of PostgreSQL's JDBC driver.
    Type,
}

/// A change to the columns that match.
#[derive(Debug, Clone)]
pub struct ColumnRule {
    /// Name with which the patterns are compared.
    pub subject: RuleSubject,
    /// Patterns of the columns.
    pub patterns: NamePatterns,
    /// Change to the columns.
    pub mapper: Mapper,
}

/// Every rule for columns. Only the first rule that matches a column applies, in Debezium's order of options:
/// `column.truncate.*`, `column.mask.with.*`, `column.propagate.source.type`, `datatype.propagate.source.type`,
/// `column.mask.hash.*`, `column.mask.hash.v2.*`.
#[derive(Debug, Clone, Default)]
pub struct ColumnRules {
    /// Columns that are included.
    pub filter: ColumnFilter,
    /// Rules that change columns, in order.
    pub mapped: Vec<ColumnRule>,
}

impl ColumnRules {
    /// Returns the change to a column of a table (`schema.table`), if a rule matches.
    #[must_use]
    pub fn mapper(&self, table: &str, column: &ColumnDescription) -> Option<&Mapper> {
        let applies = |rule: &&ColumnRule| {
            let subject = match rule.subject {
                RuleSubject::Name => column.name.clone(),
                RuleSubject::Type => column.driver_type_name(),
            };
            rule.patterns.matches(&format!("{table}.{subject}"))
        };
        self.mapped.iter().find(applies).map(|rule| &rule.mapper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::TypeKind;
    use pg_replication::wal::Oid;

    fn patterns(list: &[&str]) -> NamePatterns {
        NamePatterns::new("k", &list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn columns_are_excluded_by_their_whole_names() {
        let exclude = ColumnFilter::Exclude(patterns(&["PUBLIC\\.outbox\\.x", "public.*\\.secret"]));
        let include = ColumnFilter::Include(patterns(&["public.outbox.(id|payload)"]));
        let cases = [
            (&exclude, "x", Some("column.exclude.list")),
            (&exclude, "xy", None),
            (&exclude, "secret", Some("column.exclude.list")),
            (&include, "id", None),
            (&include, "ID", None),
            (&include, "x", Some("column.include.list")),
            (&ColumnFilter::All, "x", None),
        ];
        for (filter, column, expected) in cases {
            assert_eq!(filter.leaves_out("public.outbox", column), expected, "{filter:?} {column}");
        }
    }

    #[test]
    fn the_first_rule_holds() {
        let rule = |subject, list: &[&str], characters| ColumnRule {
            subject,
            patterns: patterns(list),
            mapper: Mapper::Truncate(characters),
        };
        let rules = ColumnRules {
            filter: ColumnFilter::All,
            mapped: vec![
                rule(RuleSubject::Type, &["public\\..*\\._varchar"], 1),
                rule(RuleSubject::Name, &[".*\\.name"], 2),
                rule(RuleSubject::Name, &[".*"], 3),
            ],
        };
        let column = |name: &str, kind| ColumnDescription {
            name: name.to_owned(),
            type_oid: Oid(0),
            type_modifier: -1,
            kind,
            not_null: false,
            default: None,
            key_position: None,
        };
        let varchars = TypeKind::Array { element: Box::new(TypeKind::base("varchar")) };
        for (name, kind, expected) in
            [("name", TypeKind::base("varchar"), 2), ("name", varchars, 1), ("id", TypeKind::base("int4"), 3)]
        {
            let found = rules.mapper("public.outbox", &column(name, kind));
            assert_eq!(found, Some(&Mapper::Truncate(expected)), "{name}");
        }
    }
}
