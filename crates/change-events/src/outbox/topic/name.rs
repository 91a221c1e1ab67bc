//! Kafka's rules for names of topics.

/// Length of the longest topic name (Kafka's `Topic.MAX_NAME_LENGTH`).
const MAX_LENGTH: usize = 249;

/// Reason why a name is no topic name. Its text never contains the name, which comes from a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IllegalTopicName {
    /// The name is empty.
    #[error("it is empty")]
    Empty,
    /// `.` or `..`
    #[error("it is \".\" or \"..\"")]
    Dots,
    /// More than 249 characters.
    #[error("it is longer than {MAX_LENGTH} characters")]
    TooLong,
    /// A character other than `a`-`z`, `A`-`Z`, `0`-`9`, point, underscore and hyphen.
    #[error("it has a character other than a-z, A-Z, 0-9, point, underscore and hyphen")]
    Character,
}

/// Checks that Kafka accepts the name (`Topic.validate`).
///
/// # Errors
/// When Kafka does not accept it.
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
