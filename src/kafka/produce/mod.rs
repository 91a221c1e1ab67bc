//! Records on their way to the brokers, and their delivery reports.

pub(super) mod accumulator;
pub(super) mod admission;
pub(super) mod clients;
pub(super) mod delivery;
pub(super) mod fault;
pub(super) mod outlet;
pub(super) mod pace;
pub(super) mod partitioner;
pub(super) mod polled_producer;
pub(super) mod producer;
pub(super) mod producer_batch;
pub(super) mod rejection;
pub(super) mod transport;
