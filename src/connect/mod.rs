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
mod heartbeat;
mod java_date;
mod java_float;
pub(crate) mod java_regex;
mod name;
mod name_patterns;
pub(crate) mod option;
mod schema;
mod value;

pub(crate) use decimal::Decimal;
pub(crate) use heartbeat::Heartbeat;
pub use name::NameAdjustment;
pub(crate) use name_patterns::NamePatterns;
pub(crate) use option::{OptionError, OptionReader, Refused};
pub use schema::{Field, Kind, Schema};
pub use value::Value;
