//! How much larger than its text a structure may be.

use super::Unexpandable;
use crate::connect::Value;

/// For each byte of the text, what may be added to the structure that is not in the text.
const ADDED_PER_TEXT_BYTE: usize = 32;
/// So much may be added to any text.
const ADDED_MIN: usize = 1 << 20;

/// The objects of an array share one schema. A member that one of them lacks is filled in as null, and structs are named after the
/// path that leads to them. A text of some kilobytes could so become gigabytes, so what is added has a limit.
#[derive(Debug)]
pub(super) struct Room(usize);

impl Room {
    /// What may be added to a text of this length.
    pub(super) const fn of_text(length: usize) -> Self {
        Self(length.saturating_mul(ADDED_PER_TEXT_BYTE).saturating_add(ADDED_MIN))
    }

    /// Fills in a null for the member of this name.
    pub(super) fn fill_in(&mut self, name: &str) -> Result<(), Unexpandable> {
        self.take(name.len().saturating_add(size_of::<Value<'_>>()))
    }

    /// Gives a struct the name of this path.
    pub(super) fn name(&mut self, path: &str) -> Result<(), Unexpandable> {
        self.take(path.len())
    }

    fn take(&mut self, bytes: usize) -> Result<(), Unexpandable> {
        self.0 = self.0.checked_sub(bytes).ok_or(Unexpandable::TooLarge)?;
        Ok(())
    }
}
