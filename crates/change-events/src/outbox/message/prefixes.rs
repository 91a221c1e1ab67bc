//! Prefixes of logical messages.

use connect_data::{NamePatterns, OptionError, OptionReader};

/// `message.prefix.include.list` and `message.prefix.exclude.list` (every prefix): filter of the messages
/// that are events.
#[derive(Debug, Clone, Default)]
pub struct MessagePrefixes {
    include: NamePatterns,
    exclude: NamePatterns,
}

impl MessagePrefixes {
    /// Compiles the lists. If both are given, only the first counts.
    ///
    /// # Errors
    /// When an entry is no regular expression; the first such entry is returned.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self, OptionError> {
        OptionReader::alone(&|_| None, |options| Ok(Self::read(options, include, exclude)))
    }

    /// Compiles the lists and reports each error to `options`.
    pub fn read(options: &mut OptionReader<'_>, include: &[String], exclude: &[String]) -> Self {
        Self {
            include: NamePatterns::read(options, "message.prefix.include.list", include),
            exclude: NamePatterns::read(options, "message.prefix.exclude.list", exclude),
        }
    }

    /// Reports whether messages with this prefix are events.
    #[must_use]
    pub fn take(&self, prefix: &str) -> bool {
        if self.include.is_empty() { !self.exclude.matches(prefix) } else { self.include.matches(prefix) }
    }
}
