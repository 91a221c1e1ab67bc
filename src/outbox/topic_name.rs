/// The longest name a topic may have (Kafka's `Topic.MAX_NAME_LENGTH`).
const MAX_LENGTH: usize = 249;

/// Why a name cannot be a topic's. The name itself is not told: it comes from a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IllegalTopicName {
    /// Nothing is left of it.
    #[error("it is empty")]
    Empty,
    /// `.` or `..`
    #[error("it is \".\" or \"..\"")]
    Dots,
    /// More than 249 characters.
    #[error("it is longer than {MAX_LENGTH} characters")]
    TooLong,
    /// Something else than letters, digits, points, underscores and hyphens.
    #[error("it has a character other than a-z, A-Z, 0-9, point, underscore and hyphen")]
    Character,
}

/// Whether Kafka accepts the name (`Topic.validate`).
///
/// # Errors
/// When it does not.
pub fn check_topic_name(name: &str) -> Result<(), IllegalTopicName> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    match name {
        "" => Err(IllegalTopicName::Empty),
        "." | ".." => Err(IllegalTopicName::Dots),
        _ if !name.bytes().all(legal) => Err(IllegalTopicName::Character),
        _ if name.len() > MAX_LENGTH => Err(IllegalTopicName::TooLong),
        _ => Ok(()),
    }
}
