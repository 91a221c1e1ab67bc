use std::collections::HashMap;

use super::builtin;
use super::format::Format;
use super::options::ColumnOptions;
use crate::pgoutput::{Column, Relation};
use crate::wal::Oid;

/// What is known of a column: from `pg_attribute` and `pg_type`, or from pgoutput alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDescription {
    /// `attname`
    pub name: String,
    /// `atttypid`
    pub type_oid: Oid,
    /// `atttypmod`, -1 when there is none.
    pub type_modifier: i32,
    /// What the type is.
    pub kind: TypeKind,
    /// `attnotnull`, or a domain's own `typnotnull`.
    pub not_null: bool,
    /// `pg_get_expr(adbin, adrelid)`, when the column has a default.
    pub default: Option<String>,
    /// Where it stands in the primary key, or without one in the first unique index by name; counted from 1.
    pub key_position: Option<i64>,
}

/// What a type is (`pg_type.typtype`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeKind {
    /// A base or range type, by its `typname`: `int4`, `jsonb`, `hstore`, `tstzrange`.
    Base {
        /// `typname`
        name: String,
    },
    /// `money`, whose text the session's `lc_monetary` decides.
    Money {
        /// Digits behind the point there.
        fraction_digits: usize,
    },
    /// A domain.
    Domain {
        /// `typname`
        name: String,
        /// The type it is over (`typbasetype`).
        base: Box<Self>,
        /// That type's modifier (`typtypmod`), -1 when there is none.
        modifier: i32,
    },
    /// An enumeration.
    Enum {
        /// `typname`
        name: String,
        /// `pg_enum.enumlabel`, by `enumsortorder`.
        labels: Vec<String>,
    },
    /// An array.
    Array {
        /// The type of its elements (`typelem`).
        element: Box<Self>,
    },
    /// A composite, a multirange, or a type nothing is known of.
    Other {
        /// `typname`
        name: String,
    },
}

/// What the catalog says of a table, and of types that its columns had.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TableDescription {
    /// Its columns; none when it is gone.
    pub columns: Vec<ColumnDescription>,
    /// The types that were asked for and are still there.
    pub types: HashMap<Oid, TypeKind>,
}

impl TableDescription {
    /// The columns that rows have in the stream: name, type and modifier of the rows' own time, the rest as the catalog has it now.
    #[must_use]
    pub(crate) fn at_the_time_of(&self, relation: &Relation) -> Vec<ColumnDescription> {
        if self.columns.is_empty() {
            return Vec::new();
        }
        relation.columns.iter().map(|column| self.column(column)).collect()
    }

    fn column(&self, column: &Column) -> ColumnDescription {
        let then = ColumnDescription::from_pgoutput(column);
        let known = self.columns.iter().find(|known| known.name == column.name);
        let then = match (self.types.get(&column.type_oid), known) {
            (Some(kind), _) => ColumnDescription { kind: kind.clone(), ..then },
            (None, Some(now)) if is_gone(&then.kind) && takes_any_text(&now.kind) => {
                ColumnDescription { kind: TypeKind::base("text"), ..then }
            }
            (None, _) => then,
        };
        match known {
            Some(known) if known.type_oid == column.type_oid => known.clone(),
            Some(ColumnDescription { not_null, default, key_position, .. }) => ColumnDescription {
                not_null: *not_null,
                default: default.clone(),
                key_position: *key_position,
                ..then
            },
            None => then,
        }
    }
}

/// A type of the row's own time that is neither built in nor in the catalog any more: it was dropped. Debezium leaves the column out.
const fn is_gone(then: &TypeKind) -> bool {
    matches!(then, TypeKind::Other { .. })
}

/// Whether the column's values are texts today, whatever they say: a text of the dropped type is as good as any. This is what becomes of
/// an enumeration that is replaced.
fn takes_any_text(now: &TypeKind) -> bool {
    match now {
        TypeKind::Enum { .. } => true,
        TypeKind::Domain { base, .. } => takes_any_text(base),
        TypeKind::Base { .. } => {
            matches!(Format::of(now, -1, &ColumnOptions::default()), Some((Format::Text, _)))
        }
        TypeKind::Money { .. } | TypeKind::Array { .. } | TypeKind::Other { .. } => false,
    }
}

impl ColumnDescription {
    /// What pgoutput alone tells: built-in types by their object id, nullability and default unknown.
    #[must_use]
    pub fn from_pgoutput(column: &Column) -> Self {
        Self {
            name: column.name.clone(),
            type_oid: column.type_oid,
            type_modifier: column.type_modifier,
            kind: builtin::kind(column.type_oid),
            not_null: false,
            default: None,
            key_position: None,
        }
    }

    /// The type's modifier, a domain's own where the column has none; -1 when there is none.
    #[must_use]
    pub const fn modifier(&self) -> i32 {
        if self.type_modifier >= 0 { self.type_modifier } else { self.kind.modifier() }
    }

    /// The type's name as PostgreSQL's JDBC driver has it: an integer that a sequence fills by default is a `serial`.
    #[must_use]
    pub(super) fn driver_type_name(&self) -> String {
        let is_filled = self.default.as_ref().is_some_and(|default| default.contains("nextval("));
        let name = self.kind.pg_name();
        match name.as_str() {
            "int2" if is_filled => "smallserial".to_owned(),
            "int4" if is_filled => "serial".to_owned(),
            "int8" if is_filled => "bigserial".to_owned(),
            _ => name,
        }
    }
}

impl TypeKind {
    /// A base type.
    #[must_use]
    pub fn base(name: impl Into<String>) -> Self {
        Self::Base { name: name.into() }
    }

    /// The modifier that a domain gives the type that it is over.
    const fn modifier(&self) -> i32 {
        match self {
            Self::Domain { modifier, base, .. } if *modifier < 0 => base.modifier(),
            Self::Domain { modifier, .. } => *modifier,
            _ => -1,
        }
    }

    /// The type itself, or the one that a domain is over in the end.
    #[must_use]
    pub fn underlying(&self) -> &Self {
        match self {
            Self::Domain { base, .. } => base.underlying(),
            other => other,
        }
    }

    /// The type's name as the catalog has it, an array's with an underscore before it.
    #[must_use]
    pub fn pg_name(&self) -> String {
        match self {
            Self::Array { element } => format!("_{}", element.pg_name()),
            other => other.name(),
        }
    }

    /// The type's name, an array's with brackets.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Base { name }
            | Self::Domain { name, .. }
            | Self::Enum { name, .. }
            | Self::Other { name } => name.clone(),
            Self::Money { .. } => "money".to_owned(),
            Self::Array { element } => format!("{}[]", element.name()),
        }
    }
}
