//! Payments: adds the amount of each event to what its customer has spent, once.
//!
//! ```console
//! $ cargo run --release -p outboxd-inbox --example payments -- --postgres URL --kafka SERVERS \
//!     --topic outbox.event.order --consumer payments --dlq payments.dlq
//! ```

mod app;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    app::main(app::Arguments::parse())
}
