use crate::connect::{NamePatterns, OptionError, OptionReader};

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
    /// When an entry is no regular expression; the first one.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self, OptionError> {
        OptionReader::alone(&|_| None, |options| Ok(Self::read(options, include, exclude)))
    }

    /// The same, with every mistake kept.
    pub fn read(options: &mut OptionReader<'_>, include: &[String], exclude: &[String]) -> Self {
        Self {
            include: NamePatterns::read(options, "message.prefix.include.list", include),
            exclude: NamePatterns::read(options, "message.prefix.exclude.list", exclude),
        }
    }

    /// Whether messages of this prefix are events.
    #[must_use]
    pub fn take(&self, prefix: &str) -> bool {
        if self.include.is_empty() { !self.exclude.matches(prefix) } else { self.include.matches(prefix) }
    }
}
