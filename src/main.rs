//! The outboxd binary.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// Allocator, for the C libraries as well.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    ExitCode::from(outboxd::cli::main().code())
}
