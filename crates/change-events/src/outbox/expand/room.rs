//! The limit of a structure's size, relative to its text.

use super::Unexpandable;
use connect_data::Value;

/// Bytes that may be added to the structure for each byte of the text.
const ADDED_PER_TEXT_BYTE: usize = 32;
/// Bytes that may be added to any text.
const ADDED_MIN: usize = 1 << 20;

/// The bytes that may still be added to a structure.
///
/// The objects of an array share one schema. A member that one of them lacks is added as null, and structs
/// are named by their path. A text of some kilobytes could so become gigabytes, therefore the added bytes
/// have a limit.
#[derive(Debug)]
pub(super) struct Room(usize);

impl Room {
    /// Returns the limit for a text of this length in bytes.
    pub(super) const fn of_text(length: usize) -> Self {
        Self(length.saturating_mul(ADDED_PER_TEXT_BYTE).saturating_add(ADDED_MIN))
    }

    /// Counts a null for a missing member of this name.
    pub(super) fn fill_in(&mut self, name: &str) -> Result<(), Unexpandable> {
        self.take(name.len().saturating_add(size_of::<Value<'_>>()))
    }

    /// Counts the name of a struct at this path.
    pub(super) fn name(&mut self, path: &str) -> Result<(), Unexpandable> {
        self.take(path.len())
    }

    fn take(&mut self, bytes: usize) -> Result<(), Unexpandable> {
        self.0 = self.0.checked_sub(bytes).ok_or(Unexpandable::TooLarge)?;
        Ok(())
    }
}
