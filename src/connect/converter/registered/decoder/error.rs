/// Why a record cannot be read. Nothing of its value is told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    /// Its schema is none, or has something that is not available.
    #[error("it cannot be used: {0}")]
    Schema(String),
    /// Its bytes were written with another schema.
    #[error("the bytes are not what this {0} schema says")]
    Malformed(&'static str),
}
