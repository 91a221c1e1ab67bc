//! `outboxd explain`: the path of one event, from its row to its consumer groups. It changes nothing.
//!
//! ```text
//! wanted ─▶ rows (PostgreSQL: row, slot) ─▶ records (Kafka: topics, dead letters) ─▶ groups ─▶ story ─▶ report
//! ```

mod args;
mod error;
mod missing_facts;
mod position;
mod records;
mod report;
mod rows;
mod since;
mod story;
mod topics;
mod wanted;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;

pub(in crate::cli) use args::ExplainArgs;
pub(in crate::cli) use error::ExplainError;
pub(in crate::cli) use topics::{all as topics_of, may_be_of, renaming};

use records::{Place, Records};
use rows::Database;
use story::{Passed, Story};
use wanted::Wanted;

use crate::cli::run::assemble::assemble;
use crate::cli::shell::decoding;
use crate::cli::shell::decoding::MissingSchema;
use crate::cli::shell::progress::Progress;
use crate::cli::{asynchronously, fail, print};
use crate::error::Exit;
use crate::kafka;
use crate::kafka::group_offsets;
use crate::relay::RelayParts;

/// Time that the brokers may take to return what a group has committed.
const GROUP_PATIENCE: Duration = Duration::from_secs(10);

/// Runs `outboxd explain`.
pub(in crate::cli) fn explain(args: &ExplainArgs) -> Exit {
    let parts = match assemble(&args.config) {
        Ok(assembly) => Arc::new(assembly.parts),
        Err(error) => return fail(&error),
    };
    let progress = Progress::new();
    let outcome = asynchronously(report(args, parts, &progress));
    progress.end();
    match outcome {
        Ok(story) => {
            print(&if args.json { story.json() } else { args.config.in_commands(&report::lines(&story)) });
            if story.has_arrived() { Exit::Ok } else { Exit::Failed }
        }
        Err(exit) => exit,
    }
}

async fn report(
    args: &ExplainArgs,
    parts: Arc<RelayParts>,
    progress: &Progress,
) -> Result<Story, ExplainError> {
    let fields = parts.route.changes().is_some();
    let wanted = Wanted { fields, ..Wanted::parse(&args.what, args.kind()) };
    let mut database = Database::ask(&parts, &wanted).await?;
    let rows = database.named_rows(&parts).await;
    let topics = topics::candidates(&parts, &database, &args.topics, args.http.as_ref()).await?;
    let letters = parts.dead_letters.as_ref().map(|letters| letters.topic().to_owned());
    let (options, bar) = (parts.kafka.clone(), progress.clone());
    let (given, guessed) = (args.since, since::guess(&wanted, &database.rows));
    let (searched, sought, named) = (topics.clone(), wanted.clone(), !args.topics.is_empty());
    let reading = decoding::run(&parts.registries, MissingSchema::Unread, move |mut decoder| {
        let (dead_letters, rows) = (letters.as_deref(), rows.as_ref());
        let place = Place { options: &options, topics: &searched, named, dead_letters, rows };
        let mut find = |since| Records::find(place, &sought, since, &mut decoder, &bar);
        let late = find(given.or(guessed))?;
        // A timestamp need not be what it seems.
        if late.is_empty() && given.is_none() && guessed.is_some() { find(None) } else { Ok(late) }
    });
    let records = reading.await.map_err(|_| ExplainError::Aborted)??;
    let mut groups = Vec::new();
    for group in &args.groups {
        groups.extend(passed(&parts.kafka, group, &records).await?);
    }
    Ok(Story::new(wanted, database, topics, records, groups))
}

/// Returns whether a group has consumed each record.
async fn passed(
    options: &kafka::Options,
    group: &str,
    records: &Records,
) -> Result<Vec<Passed>, ExplainError> {
    let partitions: Vec<_> =
        records.sent.iter().map(|record| (record.topic.clone(), record.partition)).collect();
    if partitions.is_empty() {
        return Ok(Vec::new());
    }
    let (options, name) = (options.clone(), group.to_owned());
    let asking = spawn_blocking(move || group_offsets(&options, &name, &partitions, GROUP_PATIENCE));
    let committed = asking.await.map_err(|_| ExplainError::Aborted)??;
    let passed = records.sent.iter().zip(committed).map(|(record, committed)| Passed {
        group: group.to_owned(),
        topic: record.topic.clone(),
        partition: record.partition,
        offset: record.offset,
        committed,
        passed: committed.is_some_and(|committed| committed > record.offset),
    });
    Ok(passed.collect())
}
