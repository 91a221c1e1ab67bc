//! What is done with columns by their names: some are left out, some are shown otherwise.

use super::ColumnDescription;
use super::mapper::Mapper;
use crate::connect::NamePatterns;

/// `column.include.list` or `column.exclude.list`.
#[derive(Debug, Clone, Default)]
pub enum ColumnFilter {
    /// Every column is shown.
    #[default]
    All,
    /// Only those that match `schema.table.column`.
    Include(NamePatterns),
    /// All but those.
    Exclude(NamePatterns),
}

impl ColumnFilter {
    /// The option that leaves a column of a table (`schema.table`) out, if one does.
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

/// What a rule's patterns are matched with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleSubject {
    /// `schema.table.column`
    Name,
    /// `schema.table.type`, the type as `pg_type.typname` has it.
    Type,
}

/// Columns, and what happens to them.
#[derive(Debug, Clone)]
pub struct ColumnRule {
    /// What the patterns are matched with.
    pub subject: RuleSubject,
    /// Which columns.
    pub patterns: NamePatterns,
    /// What happens to them.
    pub mapper: Mapper,
}

/// Every rule for columns. Of the rules for a column the first one holds alone, in Debezium's order of options:
/// `column.truncate.*`, `column.mask.with.*`, `column.propagate.source.type`, `datatype.propagate.source.type`,
/// `column.mask.hash.*`, `column.mask.hash.v2.*`.
#[derive(Debug, Clone, Default)]
pub struct ColumnRules {
    /// Which columns are shown.
    pub filter: ColumnFilter,
    /// How some are shown, in order.
    pub mapped: Vec<ColumnRule>,
}

impl ColumnRules {
    /// What happens to a column of a table (`schema.table`).
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
    use crate::connect::column::TypeKind;
    use crate::wal::Oid;

    fn patterns(list: &[&str]) -> NamePatterns {
        NamePatterns::new("k", &list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn columns_are_left_out_by_their_whole_names() {
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
