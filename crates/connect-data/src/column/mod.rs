//! PostgreSQL columns as Debezium's PostgreSQL connector shows them: the text form of a value, its type, and the
//! Connect value and schema they become (Debezium's `PostgresValueConverter`).
//!
//! Text is expected as the server writes it with `DateStyle=ISO` and `IntervalStyle=postgres`.

mod builtin;
mod codec;
mod default;
mod description;
mod format;
mod mapper;
mod mask_hash;
mod options;
mod rules;
#[cfg(test)]
mod tests;
mod types;

pub use codec::{ColumnCodec, ColumnError};
pub use description::{ColumnDescription, TableDescription, TypeKind};
pub use mapper::Mapper;
pub use mask_hash::{HashForm, MaskHash};
pub use options::{BinaryHandling, ColumnOptions, DecimalHandling, FailureHandling, TimePrecision};
pub use rules::{ColumnFilter, ColumnRule, ColumnRules, RuleSubject};
pub use types::bytes::{encode as binary, schema as binary_schema};
pub use types::calendar::{Moment, civil_date, civil_days, parse_timestamp, parse_timestamptz};
pub use types::numeric::precision_and_scale;
