//! The relay's core between a model of PostgreSQL and a model of Kafka: a seed decides what is committed, what breaks and in
//! which order everything happens; oracles watch. See docs/reliability.md.
//!
//! Real: feed, flight, ledger, window, pace, topics, assembler, router, converters, intake, feedback, memory, delivery
//! reports, log ends, the decoders. Modelled: both servers, librdkafka, and the loop around all of it.

mod broker;
mod bug;
mod client;
mod coordinator;
mod pipe;
mod process;
mod run;
mod server;
mod session;
mod table;
mod tails;
mod takeover;
mod tests;
mod truth;
mod wal;
