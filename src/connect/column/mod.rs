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
mod format;
mod hstore;
mod interval;
mod numeric;
mod options;
mod point;
mod temporal;
#[cfg(test)]
mod tests;

pub(crate) use calendar::{Moment, parse_timestamp, parse_timestamptz};
pub use codec::{ColumnCodec, ColumnError, UnsupportedType};
pub use description::{ColumnDescription, TypeKind};
pub use options::{
    BinaryHandling, ColumnOptions, DecimalHandling, HstoreHandling, IntervalHandling, OPTION_NAMES,
    TimePrecision,
};
