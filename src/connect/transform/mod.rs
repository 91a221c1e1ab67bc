//! Kafka Connect's single message transforms: what stands between the connector and the converters.
//!
//! ```text
//!   SourceRecord ──Chain: transforms, each with its predicate──▶ SourceRecord, or none
//! ```
//!
//! Each does what the Java class of that name does. A transform that changes a schema makes the new one once for each
//! schema that it meets, and hands out the same `Arc` from then on.

pub(crate) mod activate_tracing;
mod cast;
pub(crate) mod chain;
mod changed_state;
pub(crate) mod error;
pub(super) mod expression;
mod extract_field;
mod extract_schema;
mod field_path;
mod flatten;
mod geometries;
mod geometry_format;
mod header_to_value;
mod headers;
mod hoist_field;
mod insert_field;
mod java_hash;
pub(super) mod key_field;
mod literal;
mod logical_router;
mod mask_field;
mod murmur;
mod numbers;
mod partition_routing;
mod predicate;
mod record_size;
mod registry;
mod replace_field;
mod schema_change_filter;
mod schema_metadata;
mod schemas;
#[cfg(feature = "cel")]
mod script;
pub(super) mod settings;
mod side;
mod structs;
mod swap_coordinates;
#[cfg(test)]
mod tests;
pub(crate) mod timescale;
mod timestamp_converter;
mod timezone;
mod topic_router;
mod unwrap;
mod value_to_key;
mod vector_to_json;
mod wkb;
mod zone;

use error::Problem;
use expression::Renaming;
pub(crate) use unwrap::is_change_event;

use super::source_record::{DatumHeader, SourceRecord};
use timescale::Hypertables;

/// Why a pattern for times is refused.
const UNKNOWN_FORMAT: &str = "it has a letter that java.text.SimpleDateFormat or outboxd does not know";

/// One transform (`org.apache.kafka.connect.transforms.Transformation`).
trait Transform: std::fmt::Debug + Send + Sync {
    /// The record that it makes, or none when it drops the record.
    fn apply<'a>(&'a self, record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem>;

    /// What it renames topics by, when that is all that it does.
    fn renaming(&self) -> Option<&Renaming> {
        None
    }

    /// What it must know of TimescaleDB's catalog.
    fn hypertables(&self) -> Option<&Hypertables> {
        None
    }

    /// Whether the Java class adds headers to the record it was given instead of to a copy. See
    /// [`chain`].
    fn adds_headers_in_place(&self) -> bool {
        false
    }

    /// The headers that it adds so to this record, also when it then refuses the record.
    fn added_in_place(&self, _record: &SourceRecord<'_>) -> Vec<DatumHeader<'static>> {
        Vec::new()
    }

    /// Whether the record that the Java class hands on has the very headers of this one, not a copy of them.
    fn shares_headers(&self, _record: &SourceRecord<'_>) -> bool {
        false
    }
}
