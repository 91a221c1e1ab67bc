//! Partitions in `outboxd cleanup`.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Row;
use super::error::CleanupError;
use crate::cleanup::{CleanupOptions, Event, Partitions, Pass, PassError, SkipReason, Tree};
use crate::postgres::{Error, Sql, TableFacts};
use crate::relay::{RelayParts, is_captured};

/// Action on a partition, done or planned.
pub(super) struct Step {
    /// One of a fixed set of words.
    action: &'static str,
    /// Name of the partition, or of the outbox.
    table: String,
    rows: Option<u64>,
    /// Reason why not.
    reason: Option<String>,
    file: Option<String>,
}

impl Step {
    fn new(action: &'static str, table: String) -> Self {
        Self { action, table, rows: None, reason: None, file: None }
    }

    /// Returns the text form.
    pub(super) fn text(&self) -> String {
        let Self { action, table, rows, reason, file } = self;
        let rows = rows.map(|rows| format!(" with {rows} rows")).unwrap_or_default();
        let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let file = file.as_ref().map(|file| format!(", kept in {file}")).unwrap_or_default();
        format!("{action} {table}{rows}{file}{reason}")
    }

    /// Returns the object for a script.
    pub(super) fn object(&self) -> Value {
        let Self { action, table, rows, reason, file } = self;
        json!({ "action": action, "table": table, "rows": rows, "reason": reason, "file": file })
    }
}

/// Returns whether there is something to do with partitions.
pub(super) fn are_wanted(options: &CleanupOptions) -> bool {
    options.partitions != Partitions::Rows || options.partitions_ahead > 0
}

/// Returns the partitioned outboxes, when there is something to do with partitions.
pub(super) async fn trees(
    sql: &Sql,
    options: &CleanupOptions,
    tables: &[TableFacts],
) -> Result<Vec<Tree>, CleanupError> {
    let mut trees = Vec::new();
    if !are_wanted(options) {
        return Ok(trees);
    }
    for table in tables {
        let Some(tree) = Tree::look(sql, table).await? else { continue };
        if let Some(reason) = tree.manager.reason() {
            return Err(CleanupError::Managed { table: tree.name(), reason });
        }
        trees.push(tree);
    }
    Ok(trees)
}

/// Returns whether the table of a row is removed as a whole or stays.
pub(super) fn is_whole(options: &CleanupOptions, tree: &Tree, row: &Row) -> bool {
    options.partitions != Partitions::Rows && tree.has(row.leaf.oid)
}

/// Creates the coming partitions, or lists them.
pub(super) async fn make(
    sql: &Sql,
    options: &CleanupOptions,
    trees: &[Tree],
    execute: bool,
    steps: &mut Vec<Step>,
) -> Result<(), CleanupError> {
    let makes = execute && !trees.is_empty();
    if makes {
        options.limit(sql).await?;
    }
    for tree in trees {
        if makes {
            let made =
                tree.make(sql, options.partitions_ahead, |event| steps.push(step(options, tree, event)));
            made.await.map_err(|error: Error| failed(tree, error.into()))?;
            continue;
        }
        match tree.coming(options.partitions_ahead) {
            _ if options.partitions_ahead == 0 => {}
            Ok(coming) => {
                steps.extend(coming.iter().map(|coming| Step::new("would make", tree.name_of(coming))));
            }
            Err(irregular) => steps.push(none_made(tree.name(), irregular.to_string())),
        }
    }
    if makes {
        // Counting may last.
        sql.execute("taking the limits away", "reset lock_timeout; reset statement_timeout").await?;
    }
    Ok(())
}

/// Returns what would be removed, from the counts.
pub(super) fn would_take(parts: &RelayParts, trees: &[Tree], rows: &[Row]) -> Vec<Step> {
    let options = &parts.relay.cleanup;
    let action = match options.partitions {
        Partitions::Rows => return Vec::new(),
        Partitions::Drop => "would drop",
        Partitions::Detach => "would detach",
    };
    let over = trees.iter().flat_map(|tree| {
        let coming = tree.coming(options.partitions_ahead).map_or(0, |coming| coming.len());
        tree.over(options.partitions_ahead, coming)
    });
    let counted = over.filter_map(|partition| {
        let Row { count, .. } = rows.iter().find(|row| row.leaf.oid == partition.oid)?;
        let name = partition.name();
        if options.partitions == Partitions::Detach
            && is_captured(parts, partition.schema(), partition.table())
        {
            return Some(left(name, &SkipReason::Captured));
        }
        let sent = u64::try_from(count.sent).ok();
        let goes = count.young == 0 && count.unproven == 0;
        goes.then(|| Step { rows: sent, ..Step::new(action, name) })
    });
    counted.collect()
}

/// Drops or detaches what is over and sent.
pub(super) async fn take(
    pass: &Pass<'_>,
    trees: &[Tree],
    parts: &RelayParts,
    steps: &mut Vec<Step>,
) -> Result<(), CleanupError> {
    let stop = CancellationToken::new();
    for tree in trees {
        let captured = |schema: &str, name: &str| is_captured(parts, schema, name);
        let done =
            pass.take_partitions(tree, captured, &stop, |event| steps.push(step(pass.options, tree, event)));
        done.await.map_err(|source| failed(tree, source))?;
    }
    Ok(())
}

fn failed(tree: &Tree, source: PassError) -> CleanupError {
    CleanupError::Partitions { table: tree.name(), source }
}

fn step(options: &CleanupOptions, tree: &Tree, event: Event) -> Step {
    match event {
        Event::Made(name) => Step::new("made", name),
        Event::NotMade(name, reason) => Step { reason: Some(reason), ..Step::new("did not make", name) },
        Event::Irregular(irregular) => none_made(tree.name(), irregular.to_string()),
        Event::Gone { name, rows, file } => {
            let action = if options.partitions == Partitions::Detach { "detached" } else { "dropped" };
            Step { rows: Some(rows), file, ..Step::new(action, name) }
        }
        Event::Skipped(name, reason) => left(name, &reason),
    }
}

fn left(name: String, reason: &SkipReason) -> Step {
    Step { reason: Some(reason.to_string()), ..Step::new("left", name) }
}

/// Makes the step for partitions without a regular series, which the operator must create.
fn none_made(table: String, reason: String) -> Step {
    let reason = format!(
        "{reason}. Make the next one by hand: CREATE TABLE … PARTITION OF {table} FOR VALUES FROM (…) TO (…)"
    );
    Step { reason: Some(reason), ..Step::new("no partitions are created for", table) }
}
