//! PostgreSQL columns as Debezium's PostgreSQL connector shows them: the text form of a value, its type, and the
//! Connect value and schema they become (Debezium's `PostgresValueConverter`).
//!
//! Text is expected as the server writes it with `DateStyle=ISO` and `IntervalStyle=postgres`.

mod array;
mod builtin;
mod bytes;
mod calendar;
mod codec;
mod default;
mod description;
mod dimensions;
mod format;
mod geometry;
mod hstore;
mod interval;
mod mapper;
mod mask_hash;
mod numeric;
mod options;
mod point;
mod postgis;
mod rules;
mod structured;
mod temporal;
#[cfg(test)]
mod tests;
mod unknown;
mod vector;

pub use bytes::{encode as binary, schema as binary_schema};
pub use calendar::{Moment, civil_date, civil_days, parse_timestamp, parse_timestamptz};
pub use codec::{ColumnCodec, ColumnError};
pub use description::{ColumnDescription, TableDescription, TypeKind};
pub use mapper::Mapper;
pub use mask_hash::{HashForm, MaskHash};
pub use numeric::precision_and_scale;
pub use options::{BinaryHandling, ColumnOptions, DecimalHandling, FailureHandling, TimePrecision};
pub use rules::{ColumnFilter, ColumnRule, ColumnRules, RuleSubject};
