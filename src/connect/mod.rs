//! The Kafka Connect data model and its converters: schemas, values, and the bytes they become.
//!
//! ```text
//!   pgoutput::ColumnValue ──column──▶ Value + Schema ──converter──▶ bytes
//! ```
//!
//! Names are Debezium's and Connect's: what a column becomes is what Debezium's PostgreSQL connector makes of it, what
//! a value becomes is what Kafka's converter class of that name writes.

pub(crate) mod column;
pub(crate) mod converter;
pub(crate) mod record;

mod decimal;
pub(crate) mod event_id;
mod heartbeat;
mod java_date;
mod java_date_format;
mod java_float;
pub(crate) mod java_hash_map;
pub(crate) mod java_regex;
pub(crate) mod java_replacement;
mod name;
mod name_patterns;
pub(crate) mod option;
mod schema;
pub(crate) mod source_record;
mod topic_naming;
pub(crate) mod transform;
mod value;

pub(crate) use decimal::Decimal;
pub(crate) use heartbeat::{BeatError, Heartbeat};
pub use name::NameAdjustment;
pub(crate) use name_patterns::NamePatterns;
pub(crate) use option::{OptionError, OptionReader, Refused};
pub use schema::{Field, Kind, Schema};
pub use topic_naming::TopicNaming;
pub use value::Value;
