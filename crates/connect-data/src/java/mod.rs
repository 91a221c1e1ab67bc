//! Behavior of `java.util` and `java.text` that differs from Rust's libraries.

pub(crate) mod date;
pub(crate) mod date_format;
pub(crate) mod digits;
pub(crate) mod float;
pub(crate) mod hash_code;
pub mod hash_map;
pub(crate) mod numbers;
pub mod regex;
pub mod replacement;
