#![doc = include_str!("../README.md")]

pub mod pgoutput;
pub mod replication;
pub mod transaction;
pub mod wal;
pub mod wire;
