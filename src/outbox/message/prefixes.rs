use crate::connect::{NamePatterns, OptionError};

/// `message.prefix.include.list` and `message.prefix.exclude.list` (every prefix): which messages are events.
#[derive(Debug, Clone, Default)]
pub struct MessagePrefixes {
    include: NamePatterns,
    exclude: NamePatterns,
}

impl MessagePrefixes {
    /// Compiles the lists. With both given only the first counts.
    ///
    /// # Errors
    /// When an entry is no regular expression.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self, OptionError> {
        Ok(Self {
            include: NamePatterns::new("message.prefix.include.list", include)?,
            exclude: NamePatterns::new("message.prefix.exclude.list", exclude)?,
        })
    }

    /// Whether messages of this prefix are events.
    #[must_use]
    pub fn take(&self, prefix: &str) -> bool {
        if self.include.is_empty() { !self.exclude.matches(prefix) } else { self.include.matches(prefix) }
    }
}
