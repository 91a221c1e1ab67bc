//! `outboxd check`: preflight of PostgreSQL and Kafka. It changes nothing in either.
//!
//! ```text
//! configuration ─┬─ postgres (asks) ─ server, tables, publication, slot (judge) ─┬─ report
//!                ├─ kafka (asks) ──── topics (judges) ───────────────────────────┤
//!                └─ registry (asks) ─────────────────────────────────────────────┘
//! ```

pub(in crate::cli) mod catalog;
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
pub(in crate::cli) mod tables;
mod topics;

pub(in crate::cli) use identity::{Identity, identities};
pub(in crate::cli) use report::{Check, as_object, told};
pub(in crate::cli) use topics::topics_of_tables;

use std::sync::Arc;
use std::time::Duration;

use crate::change::ChangeEvents;
use crate::cli::args::{CheckArgs, ConfigArgs};
use crate::cli::run::assemble::{Assembly, assemble};
use crate::cli::shell::sql::open;
use crate::error::Exit;
use crate::relay::{NextStart, RelayParts, StartStep};
use postgres::{APPLICATION, FoundSlot};
use report::{Outcome, print, text, worst};

/// Time limit at the end for threads that still wait for a server.
const FAREWELL: Duration = Duration::from_millis(100);

/// Runs `outboxd check`.
pub(in crate::cli) fn check(args: &CheckArgs) -> Exit {
    let checks = checks(&args.config);
    print(&checks, args.json);
    exit(worst(&checks))
}

/// Runs the checks, and returns them as one JSON object.
pub(in crate::cli) fn report(config: &ConfigArgs) -> String {
    text(&checks(config))
}

fn checks(config: &ConfigArgs) -> Vec<Check> {
    let mut checks = match assemble(config) {
        Ok(assembly) => check_servers(assembly),
        Err(error) => configuration::mistakes(&error),
    };
    for fix in checks.iter_mut().filter_map(|check| check.fix.as_mut()) {
        *fix = config.in_commands(fix);
    }
    checks
}

/// Returns the exit code of `check`: 0 without findings, 1 for warnings only, 2 for failures.
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
            // A pending name resolution must not delay the result.
            runtime.shutdown_timeout(FAREWELL);
        }
        Err(error) => {
            let title = format!("the runtime cannot be started: {error}");
            checks.push(Check::failure(codes::RUNTIME, title));
        }
    }
    checks
}

/// Returns the next start's action, or `None` if a server does not respond, which other checks report.
async fn next_start(parts: &Arc<RelayParts>) -> Option<NextStart> {
    let sql = open(&parts.postgres.server, APPLICATION).await.ok()?;
    NextStart::find(parts, &sql).await.ok()
}

/// Checks all servers at the same time; only the checks of topics wait for those of tables.
async fn ask(parts: Arc<RelayParts>) -> Vec<Check> {
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
        rows: parts.rows_at_each_start(),
        trusts_slot: parts.relay.position.trusts_slot,
    };
    let next = match &slot {
        Some(slot) if position::is_free(slot) && reached.is_ok() => next_start(&parts).await,
        _ => None,
    };
    match (slot, &kept) {
        (Some(slot), _) if next.as_ref().is_some_and(|next| next.step == StartStep::Refuse) => {
            checks.retain(|check| slot.facts.is_some() || check.code != codes::SLOT);
            checks.extend(
                next.and_then(NextStart::into_error).map(|error| Check::error(codes::SLOT_POSITION, &error)),
            );
        }
        (Some(slot), Some(Ok(Some(kept)))) => {
            checks.extend(position::slot_position(&parts.postgres.slot, kept, &slot, told));
            checks.extend(position::suspicions(kept, &slot));
        }
        (Some(FoundSlot { facts: Some(_), .. }), _) => {
            checks.extend(next.as_ref().and_then(position::unused_slot));
        }
        _ => {}
    }
    checks.extend(kafka::check(reached, asked).await);
    checks.extend(registries);
    checks
}
