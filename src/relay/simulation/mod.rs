//! The relay's core between a model of PostgreSQL and a model of Kafka: a seed decides what is committed, what breaks and in
//! which order everything happens; oracles watch. See docs/reliability.md.
//!
//! Real: the core with all that it owns (feed, flight, ledger, window, pace, topics, assembler, router, converters, feedback), how
//! a session ends and what follows, memory, delivery reports, log ends, the decoders. Modelled: both servers and librdkafka.

mod bug;
mod end;
mod failure;
mod kafka;
mod oracle;
mod postgres;
mod process;
mod rows;
mod run;
mod session;
mod start;
mod tests;
mod world;
