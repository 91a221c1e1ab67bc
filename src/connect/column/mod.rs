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

pub(crate) use bytes::{encode as binary, schema as binary_schema};
pub(crate) use calendar::{Moment, civil_date, civil_days, parse_timestamp, parse_timestamptz};
pub use codec::ColumnCodec;
pub(crate) use codec::ColumnError;
pub(crate) use description::TableDescription;
pub use description::{ColumnDescription, TypeKind};
pub(crate) use mapper::Mapper;
pub(crate) use mask_hash::{HashForm, MaskHash};
pub(crate) use numeric::precision_and_scale;
pub use options::ColumnOptions;
pub(crate) use options::{BinaryHandling, FailureHandling};
#[cfg(test)]
pub(crate) use options::{DecimalHandling, TimePrecision};
pub use rules::ColumnRules;
pub(crate) use rules::{ColumnFilter, ColumnRule, RuleSubject};
