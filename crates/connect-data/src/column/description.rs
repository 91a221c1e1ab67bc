//! Descriptions of columns, types and tables.

use std::collections::HashMap;

use super::builtin;
use super::format::Format;
use super::options::ColumnOptions;
use pg_replication::pgoutput::{Column, Relation};
use pg_replication::wal::Oid;

/// A column, as described by `pg_attribute` and `pg_type`, or by pgoutput alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDescription {
    /// `attname`
    pub name: String,
    /// `atttypid`
    pub type_oid: Oid,
    /// `atttypmod`, -1 when there is none.
    pub type_modifier: i32,
    /// Type of the column.
    pub kind: TypeKind,
    /// `attnotnull`, or a domain's own `typnotnull`.
    pub not_null: bool,
    /// `pg_get_expr(adbin, adrelid)`, when the column has a default.
    pub default: Option<String>,
    /// Position in the primary key, or without one in the first unique index by name; counted from 1.
    pub key_position: Option<i64>,
}

/// A type (`pg_type.typtype`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeKind {
    /// A base or range type, by its `typname`: `int4`, `jsonb`, `hstore`, `tstzrange`.
    Base {
        /// `typname`
        name: String,
    },
    /// `money`, whose text format depends on the session's `lc_monetary`.
    Money {
        /// Digits behind the decimal point in that locale.
        fraction_digits: usize,
    },
    /// A domain.
    Domain {
        /// `typname`
        name: String,
        /// Underlying type (`typbasetype`).
        base: Box<Self>,
        /// Modifier of the underlying type (`typtypmod`), -1 when there is none.
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
        /// Type of the elements (`typelem`).
        element: Box<Self>,
    },
    /// A composite, a multirange, or an unknown type.
    Other {
        /// `typname`
        name: String,
    },
}

/// The catalog's description of a table, and of types that its columns had.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableDescription {
    /// Columns of the table; empty if the table no longer exists.
    pub columns: Vec<ColumnDescription>,
    /// Requested types that still exist.
    pub types: HashMap<Oid, TypeKind>,
}

impl TableDescription {
    /// Returns the columns of the rows in the stream. A column whose type is still the same is described as in the
    /// catalog; any other has its type and modifier from the stream, and the rest from the catalog. Empty if the table
    /// no longer exists.
    #[must_use]
    pub fn at_the_time_of(&self, relation: &Relation) -> Vec<ColumnDescription> {
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

/// Reports whether the type of the stream's row is neither built in nor in the catalog any more: it was dropped.
/// Debezium omits such a column from the event.
const fn is_gone(then: &TypeKind) -> bool {
    matches!(then, TypeKind::Other { .. })
}

/// Reports whether the column's values are arbitrary texts today, so that a text of the dropped type is as good as any.
/// An enumeration that is replaced is such a case.
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
    /// Returns the description that pgoutput alone provides: built-in types by their object id, without nullability,
    /// default and key.
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

    /// Returns the type modifier, a domain's own if the column has none; -1 when there is none.
    #[must_use]
    pub const fn modifier(&self) -> i32 {
        if self.type_modifier >= 0 { self.type_modifier } else { self.kind.modifier() }
    }

    /// Returns the type name that PostgreSQL's JDBC driver reports: an integer that a sequence fills by default is a
    /// `serial`.
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
    /// Returns a base type.
    #[must_use]
    pub fn base(name: impl Into<String>) -> Self {
        Self::Base { name: name.into() }
    }

    /// Returns the modifier that a domain gives its underlying type, -1 when there is none.
    const fn modifier(&self) -> i32 {
        match self {
            Self::Domain { modifier, base, .. } if *modifier < 0 => base.modifier(),
            Self::Domain { modifier, .. } => *modifier,
            _ => -1,
        }
    }

    /// Returns the type itself, or the type below all domains.
    #[must_use]
    pub fn underlying(&self) -> &Self {
        match self {
            Self::Domain { base, .. } => base.underlying(),
            other => other,
        }
    }

    /// Returns the catalog's name of the type, with an underscore before an array's.
    #[must_use]
    pub fn pg_name(&self) -> String {
        match self {
            Self::Array { element } => format!("_{}", element.pg_name()),
            other => other.name(),
        }
    }

    /// Returns the type's name, with brackets behind an array's.
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
