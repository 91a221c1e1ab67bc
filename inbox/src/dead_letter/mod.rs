//! Dead letters: records that a consumer or the relay gave up, with the reason in their headers.
//!
//! There is no common format for them. [`DeadLetter::read`] reads the headers of Kafka Connect, Spring for Apache Kafka,
//! Kafka's share groups (KIP-1191) and outboxd; [`DeadLetter::headers`] writes each of them. The value of a header that
//! cannot be read is skipped: no header prevents a dead letter from being shown.
//!
//! ```text
//! headers of a letter ──read──▶ DeadLetter { dialect, origin, reason … } ──headers──▶ headers of a letter
//! ```

mod connect;
mod dialect;
mod field;
mod outboxd;
mod replay;
mod share_group;
mod spring;
#[cfg(test)]
mod tests;

pub use dialect::Dialect;
pub use replay::{REPLAY_COUNT, REPLAYED_FROM, replay_count};

use field::Field;

/// Header with the size in bytes of a value that was too large for the dead-letter topic. The record itself is where it was
/// read.
pub(crate) const VALUE_LEFT_OUT: &str = "outboxd.errors.value.left.out.bytes";

/// Content of the headers of a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Dialect of the headers.
    pub dialect: Dialect,
    /// Meaning of the dead letter's key, value and other headers.
    pub contents: Contents,
    /// Former place of the record, as far as the headers contain it.
    pub origin: Option<Origin>,
    /// Consumer group or connector that gave the record up.
    pub consumer: Option<String>,
    /// Reason in a word: outboxd's reason, or Connect's stage.
    pub reason: Option<String>,
    /// Class of the exception; the innermost one if a dialect has several.
    pub exception: Option<String>,
    /// Message of the exception.
    pub message: Option<String>,
    /// Further details, most often a stack trace.
    pub details: Option<String>,
    /// Number of attempts.
    pub attempts: Option<u32>,
    /// Time at which the record was given up, in milliseconds since 1970.
    pub failed_at_ms: Option<i64>,
}

/// Former place of a record that became a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The topic. Share groups write its id instead if it is deleted.
    pub topic: String,
    /// The partition.
    pub partition: Option<i32>,
    /// The offset. `None` if the record was never written.
    pub offset: Option<i64>,
    /// Timestamp of the record in milliseconds since 1970, if the dead letter has a different one.
    pub timestamp_ms: Option<i64>,
}

/// Part of the record that its dead letter contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// The record: key, value and headers, besides the dialect's own.
    Record,
    /// The columns of a row that made no record. Written by the relay.
    Row,
    /// The record without its value, which was too large for the dead-letter topic as well. Written by the relay.
    ValueLeftOut,
    /// Key and value at most. The record itself has to be read from its former place. Written by share groups, and by
    /// consumers if the value was too large.
    Reference,
}

impl DeadLetter {
    /// Reads the headers of a dead letter. Returns `None` if they belong to no known dialect. If there are headers of
    /// several dialects, the last header decides.
    #[must_use]
    pub fn read<'h>(headers: impl Iterator<Item = (&'h str, Option<&'h [u8]>)> + Clone) -> Option<Self> {
        let dialect = headers.clone().filter_map(|(name, _)| Dialect::of_header(name)).last()?;
        let fields = Fields { headers };
        let letter = match dialect {
            Dialect::Outboxd => outboxd::read(&fields),
            Dialect::Connect => connect::read(&fields),
            Dialect::Spring => spring::read(&fields),
            Dialect::ShareGroup => share_group::read(&fields),
        };
        let is_whole = letter.contents != Contents::Record || !fields.has(VALUE_LEFT_OUT);
        Some(if is_whole { letter } else { Self { contents: Contents::Reference, ..letter } })
    }

    /// Returns the headers of this dead letter in its dialect. Fields for which the dialect has no header are omitted.
    #[must_use]
    pub fn headers(&self) -> Vec<(&'static str, Vec<u8>)> {
        match self.dialect {
            Dialect::Outboxd => outboxd::headers(self),
            Dialect::Connect => connect::headers(self),
            Dialect::Spring => spring::headers(self),
            Dialect::ShareGroup => share_group::headers(self),
        }
    }

    /// Returns a dead letter whose optional fields are empty.
    #[must_use]
    pub const fn new(dialect: Dialect, contents: Contents) -> Self {
        Self {
            dialect,
            contents,
            origin: None,
            consumer: None,
            reason: None,
            exception: None,
            message: None,
            details: None,
            attempts: None,
            failed_at_ms: None,
        }
    }
}

/// Headers of a dead letter, by name.
struct Fields<I> {
    headers: I,
}

impl<'h, I: Iterator<Item = (&'h str, Option<&'h [u8]>)> + Clone> Fields<I> {
    /// Returns the value of the last header with this name.
    fn bytes(&self, name: &str) -> Option<&'h [u8]> {
        self.headers.clone().filter(|(other, _)| *other == name).last()?.1
    }

    /// Returns the value of a header in the dialect's format; `None` if it is missing or cannot be read.
    fn field<T: Field>(&self, name: &str) -> Option<T> {
        T::read(self.bytes(name)?)
    }

    fn has(&self, name: &str) -> bool {
        self.headers.clone().any(|(other, _)| other == name)
    }
}

/// Adds a header if there is a value.
fn push<T: Field>(headers: &mut Vec<(&'static str, Vec<u8>)>, name: &'static str, value: Option<T>) {
    headers.extend(value.map(|value| (name, value.write())));
}
