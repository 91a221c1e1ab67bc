//! Errors of transforms.

/// Failure of a transform on a record. It does not contain the record's values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("transform {transform:?}: {problem}")]
pub struct TransformError {
    /// Name of the transform in `transforms`.
    pub transform: Box<str>,
    /// Class of the transform, as written by the user.
    pub class: Box<str>,
    /// Cause of the failure.
    #[source]
    pub problem: Problem,
}

/// Cause of a transform's failure on a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Key or value without fields.
    #[error("the record's {0} has no fields")]
    NotAStruct(&'static str),
    /// Key or value without a schema.
    #[error("the transform needs a schema, and the record has none")]
    NoSchema,
    /// Field that is not in the schema.
    #[error("there is no field {0:?}")]
    UnknownField(String),
    /// Field that is already in the schema.
    #[error("there is a field {0:?} already")]
    DuplicateField(String),
    /// Field of a type that the transform does not support.
    #[error("field {field:?} is of type {schema}, which {transform} does not take")]
    UnsupportedField {
        /// Name of the field.
        field: String,
        /// Kind of its schema.
        schema: String,
        /// Class of the transform, without its package.
        transform: &'static str,
    },
    /// Text that cannot be read as the wanted type.
    #[error("a value cannot be read as {0}")]
    Unreadable(&'static str),
    /// Null where the new schema requires a value.
    #[error("field {0:?} is null, and a value is required")]
    RequiredNull(String),
    /// Column whose schema does not contain its type.
    #[error("column {0:?} does not tell its type: set column.propagate.source.type=.*")]
    UntoldType(String),
    /// Record without a timestamp.
    #[error("the record has no timestamp")]
    NoTimestamp,
    /// Regular expression that takes too long on the topic's name.
    #[error("the regular expression takes too long on the topic's name")]
    Expression,
    /// Expression that fails on the record.
    #[error("the expression fails on the record: {0}")]
    Script(String),
    /// Expression whose result has the wrong type.
    #[error("the expression gives {given}, not {wanted}")]
    ScriptResult {
        /// Expected result.
        wanted: &'static str,
        /// Type of the result.
        given: String,
    },
}
