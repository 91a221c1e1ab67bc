//! The Kafka Connect data model and its converters: schemas, values, and the bytes they become.
//!
//! ```text
//!   pgoutput::ColumnValue ──column──▶ Value + Schema ──converter──▶ bytes
//! ```
//!
//! Names are Debezium's and Connect's: what a column becomes is what Debezium's PostgreSQL connector makes of it, what
//! a value becomes is what Kafka's converter class of that name writes.

pub mod column;
pub mod converter;
pub mod record;

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

pub use decimal::Decimal;
pub use heartbeat::Heartbeat;
pub use name::NameAdjustment;
pub use name_patterns::NamePatterns;
pub use option::{OptionError, OptionReader, Refused};
pub use schema::{Field, Kind, Schema};
pub use value::Value;
