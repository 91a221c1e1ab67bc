//! Payments over HTTP with the header `Idempotency-Key`.
//!
//! ```console
//! $ cargo run --release -p outboxd-inbox --features redis,tower --example http -- \
//!     --postgres postgres://user@host/database --redis redis://localhost
//! $ curl -i localhost:8080/payments -H 'Idempotency-Key: "a-1"' -d '{"customer_id": 7, "amount": 3}'
//! ```

mod app;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    app::main(app::Arguments::parse())
}
