//! `outboxd cleanup`: deletes rows that are proven to be sent. Without `--execute` it only counts them.

mod args;
mod error;
mod partitions;
mod proof;

use std::sync::Arc;

use indicatif::HumanBytes;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub(in crate::cli) use args::CleanupArgs;
use error::{CleanupError, PRIVILEGES};
use partitions::Step;

use crate::cleanup::{Archive, ArchiveTo, Busy, CleanupOptions, Converted, Count, Leaf, Pass, leaves};
use crate::cli::run::assemble::assemble;
use crate::cli::shell::ask::{Answer, confirmed};
use crate::cli::shell::progress::Progress;
use crate::cli::shell::sql::open;
use crate::cli::shell::text::columns;
use crate::cli::{asynchronously, print, print_message};
use crate::error::Exit;
use crate::postgres::{Sql, TableFacts};
use crate::relay::{CleanupObstacle, OnlyCopies, RelayParts, ValuelessDeadLetters, suits};

/// `application_name` of the command's sessions in `pg_stat_activity`.
const APPLICATION: &str = "outboxd cleanup";
const HEAD: [&str; 4] = ["TABLE", "SENT", "KEPT", "NOT PROVEN YET"];

/// Counts of a table, and the result.
struct Row {
    leaf: Leaf,
    count: Count,
    deleted: u64,
    yielded: u64,
    /// Files that have the rows.
    files: Vec<String>,
}

/// Steps that were done, or would be.
#[derive(Default)]
struct Done {
    /// Steps with partitions.
    steps: Vec<Step>,
    /// Tables whose rows are deleted one by one.
    single: Vec<Row>,
}

/// Runs `outboxd cleanup`.
pub(in crate::cli) fn cleanup(args: &CleanupArgs) -> Exit {
    let progress = Progress::new();
    let ended = asynchronously(work_and_report(args, &progress));
    progress.end();
    ended.unwrap_or_else(|exit| exit)
}

/// Works, and reports what was done, also when an error ends it.
async fn work_and_report(args: &CleanupArgs, progress: &Progress) -> Result<Exit, CleanupError> {
    let mut done = Done::default();
    let ended = work(args, progress, &mut done).await;
    if ended.is_err() {
        progress.end();
        done.report();
    }
    ended
}

async fn work(args: &CleanupArgs, progress: &Progress, done: &mut Done) -> Result<Exit, CleanupError> {
    let mut parts = assemble(&args.config)?.parts;
    let options = args.options(&parts.relay.cleanup);
    parts.relay.cleanup = options.clone();
    let parts = Arc::new(parts);
    let doubt = match suits(&parts) {
        Err(CleanupObstacle::BeforeSlot) if !args.execute => Some(CleanupObstacle::BeforeSlot),
        suited => suited.map(|()| None)?,
    };
    if !options.keep.is_zero() && options.time_column.is_none() {
        return Err(CleanupError::NoTimeColumn);
    }
    if args.archive_format.is_some() && !matches!(options.archive, Some(ArchiveTo::Folder(_))) {
        return Err(CleanupError::NoFolder);
    }
    let sql = open(&parts.postgres.server, APPLICATION).await?;
    let tables = proof::tables(&sql, &parts).await?;
    let (tables, copies) = without_only_copies(&sql, &parts, tables).await?;
    if tables.is_empty()
        && let Some(copies) = copies
    {
        return Err(copies.into());
    }
    let mut trees = partitions::trees(&sql, &options, &tables).await?;
    if trees.is_empty() && partitions::are_wanted(&options) {
        print_message("  no captured table is partitioned: --partitions and --partitions-ahead do nothing");
    }
    partitions::make(&sql, &options, &trees, args.execute, &mut done.steps).await?;
    if args.execute {
        // With the new ones.
        trees = partitions::trees(&sql, &options, &tables).await?;
    }
    let horizon = proof::horizon(&sql, &parts, args.wait, progress).await?;
    let waits = |busy| progress.above(|| print_message(&waiting(busy)));
    let pass = Pass { sql: &sql, options: &options, horizon, waits: &waits };
    let role = parts.postgres.server.user.as_str();
    let rows = count(&pass, &tables, role, progress).await?;
    if !args.json {
        report(&rows);
    }
    if let Some(doubt) = doubt {
        print_message(&format!("  {doubt}: --execute needs --also-before-slot"));
    }
    let is_whole = |row: &Row| trees.iter().any(|tree| partitions::is_whole(&options, tree, row));
    let (whole, single): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_whole);
    done.single = single;
    let sent: i64 = done.single.iter().map(|row| row.count.sent).sum();
    let asks = args.execute && (sent > 0 || !whole.is_empty());
    let agreed = asks && agreed(args, &parts).await;
    if agreed {
        options.limit(&sql).await?;
        partitions::take(&pass, &trees, &parts, &mut done.steps).await?;
        delete(&pass, &mut done.single, role, progress).await?;
    } else if !args.execute {
        done.steps.extend(partitions::would_take(&parts, &trees, &whole));
        print_message("nothing was deleted: --execute does it");
    }
    if args.execute && agreed == asks {
        convert(&options).await?;
    }
    if args.json {
        let rows: Vec<_> = whole.iter().chain(&done.single).collect();
        print(&format!("{}\n", object(&rows, &done.steps, horizon.lsn.to_string(), agreed)));
    } else if copies.is_none() {
        done.report();
    }
    match copies {
        Some(copies) => Err(copies.into()),
        None => Ok(if asks && !agreed { Answer::No.exit() } else { Exit::Ok }),
    }
}

/// Returns the tables from which rows may be deleted, and the reason for which one of the others is skipped.
async fn without_only_copies(
    sql: &Sql,
    parts: &Arc<RelayParts>,
    tables: Vec<TableFacts>,
) -> Result<(Vec<TableFacts>, Option<OnlyCopies>), CleanupError> {
    let letters = ValuelessDeadLetters::read(parts).await.map_err(CleanupError::Kafka)?;
    let (mut free, mut found) = (Vec::new(), None);
    for table in tables {
        match letters.only_copies(sql, parts, &table).await? {
            None => free.push(table),
            Some(copies) => found = found.or(Some(copies)),
        }
    }
    Ok((free, found))
}

async fn count(
    pass: &Pass<'_>,
    tables: &[TableFacts],
    role: &str,
    progress: &Progress,
) -> Result<Vec<Row>, CleanupError> {
    let mut rows = Vec::new();
    for table in tables {
        for leaf in leaves(pass.sql, table).await? {
            progress.waiting(&format!("counting {}", leaf.name));
            let count = pass.count(&leaf).await;
            let count = count.map_err(|error| error.or_grant(PRIVILEGES, &leaf.quoted, role))?;
            rows.push(Row { leaf, count, deleted: 0, yielded: 0, files: Vec::new() });
        }
    }
    progress.end();
    Ok(rows)
}

/// Asks before rows are deleted that were never sent, whether the command or the configuration allows it.
/// What is proven to be sent needs no question.
async fn agreed(args: &CleanupArgs, parts: &RelayParts) -> bool {
    if !parts.relay.cleanup.before_slot {
        return true;
    }
    print_message("rows that are older than the slot go too, sent or not");
    confirmed(parts.postgres.slot.name.as_str(), args.yes, "deletes them").await == Answer::Yes
}

async fn delete(
    pass: &Pass<'_>,
    rows: &mut [Row],
    role: &str,
    progress: &Progress,
) -> Result<(), CleanupError> {
    let stop = CancellationToken::new();
    for row in rows.iter_mut().filter(|row| row.count.sent > 0) {
        let Row { leaf, deleted, yielded, files, count } = row;
        let failed = |source| CleanupError::of_pass(source, leaf, pass.options, role);
        let mut archive = Archive::open(pass.sql, pass.options, leaf).await.map_err(failed)?;
        progress.begin("deleting", u64::try_from(count.sent).ok());
        let gone = |rows| {
            *deleted += rows;
            progress.advance(rows);
        };
        let ended = pass.delete(leaf, &mut archive, &stop, gone).await;
        *files = names(&archive);
        *yielded = ended.map_err(failed)?.yielded;
        archive.close(&stop).await.map_err(failed)?;
        *files = names(&archive);
    }
    progress.end();
    Ok(())
}

fn waiting(busy: Busy) -> String {
    match busy {
        Busy::Lag(bytes) => {
            format!(
                "waiting for a standby that is {} behind (outboxd.cleanup.pause.lag.bytes)",
                HumanBytes(bytes)
            )
        }
        Busy::Transaction(age) => format!(
            "waiting for a transaction that is {} s old (outboxd.cleanup.pause.transaction.age.ms)",
            age.as_secs()
        ),
    }
}

fn names(archive: &Archive) -> Vec<String> {
    archive.files().iter().map(|file| file.display().to_string()).collect()
}

/// Makes Parquet files of what processes that have ended have left, too.
async fn convert(options: &CleanupOptions) -> Result<(), CleanupError> {
    let converted = options.convert(true, &CancellationToken::new()).await.map_err(CleanupError::Folder)?;
    for Converted { segment, file } in converted {
        file.map_err(|source| CleanupError::Parquet(segment, source))?;
    }
    Ok(())
}

fn report(rows: &[Row]) {
    let cells = rows.iter().map(|Row { leaf, count, .. }| {
        [leaf.name.clone(), count.sent.to_string(), count.young.to_string(), count.unproven.to_string()]
    });
    print(&columns(&std::iter::once(HEAD.map(str::to_owned)).chain(cells).collect::<Vec<_>>()));
}

impl Done {
    fn report(&self) {
        self.steps.iter().for_each(|step| print_message(&step.text()));
        for Row { leaf, deleted, yielded, files, .. } in &self.single {
            if *deleted > 0 {
                let kept =
                    if files.is_empty() { String::new() } else { format!(", kept in {}", files.join(", ")) };
                print_message(&format!("deleted {deleted} rows of {}{kept}", leaf.name));
            }
            if *yielded > 0 {
                print_message(&format!(
                    "  {yielded} batches of {} were skipped: another session had locked the table, or they took too long",
                    leaf.name
                ));
            }
        }
    }
}

fn object(rows: &[&Row], steps: &[Step], lsn: String, done: bool) -> Value {
    let tables: Vec<_> = rows
        .iter()
        .map(|Row { leaf, count, deleted, yielded, files }| {
            json!({
                "table": leaf.name, "sent": count.sent, "kept": count.young, "unproven": count.unproven,
                "deleted": deleted, "yielded": yielded, "file": files.last(), "files": files,
            })
        })
        .collect();
    let steps: Vec<_> = steps.iter().map(Step::object).collect();
    json!({ "proven_to": lsn, "tables": tables, "partitions": steps, "done": done })
}
