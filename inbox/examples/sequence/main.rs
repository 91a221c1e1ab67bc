//! The sequence buffer by itself: lines of accounts that come in any order are written down in the order of their numbers.
//!
//! ```console
//! $ cargo run --release -p outboxd-inbox --example sequence -- --postgres URL --kafka SERVERS --topic lines
//! ```

mod app;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    app::main(app::Arguments::parse())
}
