//! The relay's core between a model of PostgreSQL and a model of Kafka: a seed decides what is committed, what breaks and in
//! which order everything happens; oracles watch. See docs/reliability.md.
//!
//! Real: the core with all that it owns (feed, flight, ledger, window, pace, topics, assembler, router, converters, feedback), how
//! a session ends and what follows, memory, delivery reports, log ends, the decoders. Modelled: both servers and librdkafka.

mod broker;
mod bug;
mod capture;
mod catalog;
mod changes;
mod client;
mod coordinator;
mod ddl;
mod failure;
mod identities;
mod opening;
mod pipe;
mod positions;
mod process;
mod run;
mod server;
mod session;
mod slot;
mod table;
mod tails;
mod takeover;
mod tests;
mod truth;
mod wal;
mod world;
