//! Errors of reading a record.

/// Failure to read a record. The error does not contain the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A schema that is invalid, or uses an unsupported feature.
    #[error("it cannot be used: {0}")]
    Schema(String),
    /// Bytes that were written with another schema.
    #[error("the bytes do not match this {0} schema")]
    Malformed(&'static str),
}
