//! Errors of schemas and values for a registry.

use super::avro::NameError;

/// A Connect schema or value that the registry's schema language cannot express.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// A name that Avro does not allow.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Two different structs with the same name.
    #[error("the value has two different records with the name {0:?}")]
    Redefined(String),
    /// A value that is not a named record, for a subject that is named after the record.
    #[error("{0} takes only records with a name")]
    NoRecord(&'static str),
    /// A name that Protobuf does not allow.
    #[error(
        "Protobuf does not allow the name {0:?}: it must begin with a letter or an underscore, followed by letters, \
         digits and underscores; scrub.invalid.names=true changes such names"
    )]
    ProtobufName(String),
    /// A list of lists or of maps.
    #[error("{0} is a list of lists, which Protobuf does not have")]
    NestedList(String),
    /// A list or a map whose parts have no common type.
    #[error("{0} is of no type: the parts of a list or a map must have a common type")]
    Untyped(String),
    /// A null in a list.
    #[error("a list has a null in it, for which Protobuf has no place; array_remove(…, NULL) takes it out")]
    NullInList,
    /// A value outside the range of the message for its type.
    #[error("a value is no {0}, which Protobuf's message for it requires")]
    OutOfRange(&'static str),
    /// A default value that is not a JSON number.
    #[error("a default is not a finite number, which a JSON Schema cannot say; ALTER the column's DEFAULT")]
    Infinite,
}
