//! The outboxd binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(outboxd::cli::main().code())
}
