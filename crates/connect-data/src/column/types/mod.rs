//! Families of types: the text of a value to a Connect value, and its schema.

pub(super) mod array;
pub(super) mod bytes;
pub(super) mod calendar;
pub(super) mod dimensions;
pub(super) mod geometry;
pub(super) mod hstore;
pub(super) mod interval;
pub(super) mod numeric;
mod structured;
pub(super) mod temporal;
pub(super) mod unknown;
pub(super) mod vector;
