//! Kafka Connect's single message transforms, which are applied between the connector and the converters.
//!
//! ```text
//!   SourceRecord ──Chain: transforms, each with its predicate──▶ SourceRecord, or none
//! ```
//!
//! Each behaves like the Java class of its name. A transform that changes a schema creates the new one once for each schema
//! that it meets, and returns the same `Arc` from then on.

pub mod chain;
pub mod debezium;
pub mod error;
pub(super) mod expression;
mod fields;
mod kafka;
pub(super) mod key_field;
mod predicate;
mod registry;
#[cfg(feature = "cel")]
mod script;
pub(super) mod settings;
#[cfg(test)]
mod tests;

pub use debezium::unwrap::is_change_event;
use error::Problem;
use expression::Renaming;

use super::source_record::{DatumHeader, SourceRecord};
use debezium::timescale::Hypertables;

/// Reason for which a pattern for times is refused.
const UNKNOWN_FORMAT: &str = "it has a letter that java.text.SimpleDateFormat or outboxd does not know";

/// Transform (`org.apache.kafka.connect.transforms.Transformation`).
trait Transform: std::fmt::Debug + Send + Sync {
    /// Returns the transformed record, or none when the transform drops it.
    fn apply<'a>(&'a self, record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem>;

    /// Returns the rule by which it renames topics, if it does nothing else.
    fn renaming(&self) -> Option<&Renaming> {
        None
    }

    /// Returns the hypertables that it needs from TimescaleDB's catalog.
    fn hypertables(&self) -> Option<&Hypertables> {
        None
    }

    /// Reports whether the Java class adds headers to the record that it gets, instead of to a copy. See [`chain`].
    fn adds_headers_in_place(&self) -> bool {
        false
    }

    /// Returns the headers that it adds in place to this record, even if it then refuses the record.
    fn added_in_place(&self, _record: &SourceRecord<'_>) -> Vec<DatumHeader<'static>> {
        Vec::new()
    }

    /// Reports whether the Java class returns a record with the same headers object as this one, not with a copy.
    fn shares_headers(&self, _record: &SourceRecord<'_>) -> bool {
        false
    }
}
