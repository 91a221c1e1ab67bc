use crate::error::{Class, Diagnose};

/// A record that a transform cannot work on. The record's values are not told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("transform {transform:?}: {problem}")]
pub struct TransformError {
    /// The transform's name in `transforms`.
    pub transform: Box<str>,
    /// Its class, as the user has written it.
    pub class: Box<str>,
    /// What is wrong.
    #[source]
    pub problem: Problem,
}

/// What is wrong with a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A key or value that has no fields.
    #[error("the record's {0} has no fields")]
    NotAStruct(&'static str),
    /// A key or value without a schema.
    #[error("the transform needs a schema, and the record has none")]
    NoSchema,
    /// A field that the schema does not have.
    #[error("there is no field {0:?}")]
    UnknownField(String),
    /// A field that the schema has already.
    #[error("there is a field {0:?} already")]
    DuplicateField(String),
    /// A field of a type that the transform does not take.
    #[error("field {field:?} is of type {schema}, which {transform} does not take")]
    UnsupportedField {
        /// The field.
        field: String,
        /// The kind of its schema.
        schema: String,
        /// The transform's class, without its package.
        transform: &'static str,
    },
    /// A text that is not what the wanted type needs.
    #[error("a value cannot be read as {0}")]
    Unreadable(&'static str),
    /// Null where the new schema requires a value.
    #[error("field {0:?} is null, and a value is required")]
    RequiredNull(String),
    /// A column whose schema does not tell of what type it is.
    #[error("column {0:?} does not tell its type: set column.propagate.source.type=.*")]
    UntoldType(String),
    /// The record has no timestamp.
    #[error("the record has no timestamp")]
    NoTimestamp,
    /// An expression that was given up on.
    #[error("the regular expression takes too long on the topic's name")]
    Expression,
    /// An expression that does not work on the record.
    #[error("the expression fails on the record: {0}")]
    Script(String),
    /// An expression that gave something else than it should.
    #[error("the expression gives {given}, not {wanted}")]
    ScriptResult {
        /// What it should give.
        wanted: &'static str,
        /// The type that it gave.
        given: String,
    },
}

impl Diagnose for TransformError {
    fn class(&self) -> Class {
        Class::Definite
    }
}
