//! An order, its payment and its shipping: three services that send each other events through their outboxes.
//!
//! ```console
//! $ cargo run --release -p outboxd-inbox --example saga -- --postgres URL --kafka SERVERS
//! ```
//!
//! What the relay needs, for each of the services: `table.include.list=orders.outbox,payments.outbox,shipping.outbox` and
//! `table.fields.additional.placement=event_type:header,headers:header`.

mod app;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    app::main(app::Arguments::parse())
}
