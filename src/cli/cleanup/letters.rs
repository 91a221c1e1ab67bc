//! Dead letters that refer to rows: a letter that was too large went without its value, which is in the table alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::task::spawn_blocking;

use super::error::CleanupError;
use crate::cli::check::tables;
use crate::cli::event_id::plain_id;
use crate::cli::notice::open_scan;
use crate::cli::progress::Progress;
use crate::connect::record::VALUE_LEFT_OUT_HEADER;
use crate::postgres::{Sql, TableFacts};
use crate::relay::{DeadLetters, RelayParts};

/// How many letters without their value are remembered. With more, rows are looked for by these.
const LETTERS_MAX: usize = 100_000;

/// Refuses to take rows away that dead letters refer to.
///
/// # Errors
/// When there are such rows, and no archive would keep them; or when nobody can say so.
pub(super) async fn check(
    sql: &Sql,
    parts: &Arc<RelayParts>,
    captured: &[TableFacts],
    progress: &Progress,
) -> Result<(), CleanupError> {
    let topic = parts.dead_letters.as_ref().map(|letters| DeadLetters::topic(letters).to_owned());
    let (Some(topic), Some(router)) = (topic, parts.route.outbox()) else { return Ok(()) };
    if parts.relay.cleanup.archive.is_some() {
        return Ok(());
    }
    let ids = without_value(Arc::clone(parts), topic.clone(), progress.clone()).await?;
    if ids.is_empty() {
        return Ok(());
    }
    let ids: Vec<String> = ids.into_iter().collect();
    for table in captured {
        let (outbox, _) = tables::bind(router, table, sql.describe(table.oid).await?);
        let Some(column) = outbox.as_ref().and_then(tables::Outbox::id_column) else { continue };
        let column = postgres_protocol::escape::escape_identifier(column);
        let quoted = table.quoted();
        let query = format!("select count(*) from {quoted} where {column}::text = any($1)");
        let found = sql.query("looking for rows that dead letters refer to", &query, &[&ids]).await?;
        let rows: i64 = found.first().and_then(|row| row.try_get(0).ok()).unwrap_or_default();
        if rows > 0 {
            return Err(CleanupError::Letters { table: tables::name(table), rows, topic });
        }
    }
    Ok(())
}

/// The ids of the events whose letters have no value.
async fn without_value(
    parts: Arc<RelayParts>,
    topic: String,
    progress: Progress,
) -> Result<BTreeSet<String>, CleanupError> {
    let reading = spawn_blocking(move || {
        let scan = open_scan(&parts.kafka, &[topic], None, &progress)?;
        let mut ids = BTreeSet::new();
        scan.read::<crate::kafka::Error>(
            || true,
            |record| {
                let is_without = record.headers().any(|header| header.name == VALUE_LEFT_OUT_HEADER);
                if is_without && ids.len() < LETTERS_MAX {
                    ids.extend(record.event_id().and_then(plain_id));
                }
                Ok(())
            },
        )?;
        Ok::<_, crate::kafka::Error>(ids)
    });
    let read = reading
        .await
        .unwrap_or_else(|_| Err(crate::kafka::Error::Fatal("the reading was aborted".to_owned())));
    read.map_err(CleanupError::Kafka)
}
