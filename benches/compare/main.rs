//! outboxd beside `pg_recvlogical` and Debezium, on servers of its own: `cargo bench --bench compare -- --help`.
//!
//! ```text
//!   drain (default)   every contestant works off the same backlog, in interleaved rounds: a table of medians
//!   --latency 200     commit to consumer, at so many transactions a second
//!   --soak 60         a load of so many minutes: does memory stay where it is?
//!   --verify          `outboxd verify` over so many rows: how long, and how much memory
//! ```
//!
//! PostgreSQL and Kafka are those of the tests, with the virtual machine's usual compiler. They end with the command.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a measurement fails by panicking, and prints what it saw"
)]

mod backlog;
mod clock;
mod connect;
mod consumer;
mod contestant;
mod drain;
mod lab;
mod latency;
mod options;
mod plain_loop;
mod reader;
mod receiver;
mod relays;
mod soak;
#[path = "../../tests/support/mod.rs"]
mod support;
mod table;
mod tables;
mod topic;
mod usage;
mod verify;
mod writer;

use std::process::ExitCode;

use options::{Mode, Options};

fn main() -> ExitCode {
    let options = Options::read();
    if !options.bench {
        println!("nothing is measured: this is for `cargo bench --bench compare`");
        return ExitCode::SUCCESS;
    }
    let succeeded = match options.mode() {
        Mode::Drain => drain::run(&options),
        Mode::Latency { rate } => latency::run(&options, rate),
        Mode::Soak { duration } => soak::run(&options, duration),
        Mode::Verify => verify::run(&options),
    };
    if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
