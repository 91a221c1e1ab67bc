//! Dead letters: records that somebody gave up, with the reason in their headers.
//!
//! There is no one way to write them. [`DeadLetter::read`] knows the headers of Kafka Connect, Spring for Apache Kafka,
//! Kafka's share groups (KIP-1191) and outboxd; [`DeadLetter::headers`] writes each of them. What a header says that
//! cannot be read is left out: no header keeps a letter from being shown.
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

/// The size of a value that was too large for the dead-letter topic. The record itself is where it was read.
pub(crate) const VALUE_LEFT_OUT: &str = "outboxd.errors.value.left.out.bytes";

/// What the headers of a dead letter say about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Whose headers they are.
    pub dialect: Dialect,
    /// What the letter's key, value and other headers are.
    pub contents: Contents,
    /// Where the record was, as far as that is told.
    pub origin: Option<Origin>,
    /// Who gave it up: a consumer group, or a connector.
    pub consumer: Option<String>,
    /// Why, in a word: outboxd's reason, or Connect's stage.
    pub reason: Option<String>,
    /// The class of the exception; the innermost one where a dialect tells several.
    pub exception: Option<String>,
    /// What the exception said.
    pub message: Option<String>,
    /// More about it, most often a stack trace.
    pub details: Option<String>,
    /// How often it was tried.
    pub attempts: Option<u32>,
    /// When it was given up, in milliseconds since 1970.
    pub failed_at_ms: Option<i64>,
}

/// Where a dead record was before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The topic. Share groups name its id instead when it is deleted.
    pub topic: String,
    /// The partition.
    pub partition: Option<i32>,
    /// The offset. None when the record was never written.
    pub offset: Option<i64>,
    /// Its timestamp in milliseconds since 1970, where the letter's own is another one.
    pub timestamp_ms: Option<i64>,
}

/// What a letter has of the record that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// The record: key, value and headers, besides the dialect's own.
    Record,
    /// The columns of a row that made no record. The relay's.
    Row,
    /// The record without its value, which was too large for the dead-letter topic as well. The relay's.
    ValueLeftOut,
    /// Key and value at most. The record itself has to be read where it was. Share groups', and those of consumers whose value
    /// was too large.
    Reference,
}

impl DeadLetter {
    /// Reads the headers of a letter. None when they are of no dialect that is known. If there are headers of several, those
    /// that were written last count.
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

    /// The headers that say this in the letter's dialect. What the dialect has no header for is left out.
    #[must_use]
    pub fn headers(&self) -> Vec<(&'static str, Vec<u8>)> {
        match self.dialect {
            Dialect::Outboxd => outboxd::headers(self),
            Dialect::Connect => connect::headers(self),
            Dialect::Spring => spring::headers(self),
            Dialect::ShareGroup => share_group::headers(self),
        }
    }

    /// A letter that says nothing yet.
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

/// The headers of a letter, by name.
struct Fields<I> {
    headers: I,
}

impl<'h, I: Iterator<Item = (&'h str, Option<&'h [u8]>)> + Clone> Fields<I> {
    /// The value of the last header of this name.
    fn bytes(&self, name: &str) -> Option<&'h [u8]> {
        self.headers.clone().filter(|(other, _)| *other == name).last()?.1
    }

    /// A value that the dialect writes like this.
    fn field<T: Field>(&self, name: &str) -> Option<T> {
        T::read(self.bytes(name)?)
    }

    fn has(&self, name: &str) -> bool {
        self.headers.clone().any(|(other, _)| other == name)
    }
}

/// Adds a header when there is something to say.
fn push<T: Field>(headers: &mut Vec<(&'static str, Vec<u8>)>, name: &'static str, value: Option<T>) {
    headers.extend(value.map(|value| (name, value.write())));
}
