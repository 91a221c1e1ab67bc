//! `outboxd check`: whether PostgreSQL and Kafka are prepared. It changes nothing in either.
//!
//! ```text
//! configuration ─┬─ postgres (asks) ─ server, tables, publication, slot (judge) ─┬─ report
//!                ├─ kafka (asks) ──── topics (judges) ───────────────────────────┤
//!                └─ registry (asks) ─────────────────────────────────────────────┘
//! ```

pub(super) mod catalog;
mod codes;
mod configuration;
mod generated;
mod identity;
mod kafka;
mod makers;
mod position;
mod postgres;
mod publication;
mod registry;
mod report;
mod retention;
mod server;
mod slot;
mod state_topic;
pub(super) mod tables;
mod topics;

pub(super) use identity::{Identity, identities};
pub(super) use report::{Check, as_object, told};
pub(super) use topics::topics_of_tables;

use std::sync::Arc;
use std::time::Duration;

use super::args::CheckArgs;
use super::assemble::{Assembly, assemble};
use crate::change::ChangeEvents;
use crate::error::Exit;
use crate::postgres::SnapshotMode;
use report::{Outcome, print, worst};

/// How long threads that still wait for a server are waited for at the end.
const FAREWELL: Duration = Duration::from_millis(100);

/// `outboxd check`.
pub(super) fn check(args: &CheckArgs) -> Exit {
    let checks = match assemble(&args.config) {
        Ok(assembly) => check_servers(assembly),
        Err(error) => configuration::mistakes(&error),
    };
    print(&checks, args.json);
    exit(worst(&checks))
}

/// The exit codes of `check` are its own: 0 ok, 1 warnings only, 2 failures.
const fn exit(worst: Outcome) -> Exit {
    match worst {
        Outcome::Ok | Outcome::Note | Outcome::Skipped => Exit::Ok,
        Outcome::Warning => Exit::Failed,
        Outcome::Failure => Exit::Usage,
    }
}

fn check_servers(assembly: Assembly) -> Vec<Check> {
    let mut checks = configuration::valid(&assembly.notices);
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            checks.extend(runtime.block_on(ask(Arc::new(assembly.parts))));
            // A name that is still being looked up must not hold up the answer.
            runtime.shutdown_timeout(FAREWELL);
        }
        Err(error) => {
            let title = format!("the runtime cannot be started: {error}");
            checks.push(Check::failure(codes::RUNTIME, title));
        }
    }
    checks
}

/// All servers at once; only the topics have to wait for the tables.
async fn ask(parts: Arc<crate::relay::RelayParts>) -> Vec<Check> {
    let (found, (reached, kept), registries) = tokio::join!(
        postgres::check(&parts),
        kafka::reach_with_position(&parts),
        registry::check(&parts.registries)
    );
    let (mut targets, about_routes) = topics::targets(&parts.route, &found.outboxes);
    if let Some(changes) = parts.route.changes() {
        let via_root = parts.postgres.publication.via_partition_root;
        let of_tables = topics::of_tables(changes, &found.tables, via_root);
        of_tables.into_iter().for_each(|target| topics::add(&mut targets, target));
    }
    let dead_letters =
        parts.dead_letters.as_ref().map(|dead_letters| topics::Target::dead_letters(dead_letters.topic()));
    let (mut checks, slot) = (found.checks, found.slot);
    checks.extend(about_routes);
    let asked = kafka::Asked {
        targets: &targets,
        renaming: parts.route.changes().and_then(ChangeEvents::renaming_transform),
        options: &parts.kafka,
        dead_letters: dead_letters.as_ref(),
        transactions: parts.relay.transactions.as_ref(),
        slot: parts.postgres.slot.name.as_str(),
        position: parts.relay.position.topic.as_deref(),
        kept: kept.as_ref(),
    };
    let told = position::ConfiguredStart {
        stored_offset: parts.relay.offsets.is_some(),
        accept: parts.relay.position.accept,
        always: parts.postgres.snapshot.mode == SnapshotMode::Always,
    };
    if let (Some(slot), Some(Ok(Some(kept)))) = (slot, &kept) {
        checks.extend(position::slot_position(&parts.postgres.slot, kept, &slot, told));
    }
    checks.extend(kafka::check(reached, asked).await);
    checks.extend(registries);
    checks
}
