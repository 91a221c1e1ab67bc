#![doc = include_str!("../README.md")]

pub mod change;
pub mod outbox;
pub mod signal;
pub mod source_offset;
