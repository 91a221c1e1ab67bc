//! Dead letters that refer to rows: a letter that was too large went without its value, which is in the table alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use postgres_protocol::escape::escape_identifier;
use tokio::task::spawn_blocking;

use crate::connect::event_id::plain_id;
use crate::connect::record::VALUE_LEFT_OUT_HEADER;
use crate::kafka::{self, TopicScan};
use crate::outbox::EventRouter;
use crate::postgres::{self, Sql, TableFacts};
use crate::relay::dead_letters::DeadLetters;
use crate::relay::parts::RelayParts;
use crate::relay::resolution::relation_of;

/// The number of letters without their value that are remembered. With more, nothing is deleted.
const LETTERS_MAX: usize = 100_000;

const EVENT_ID: &str = "table.field.event.id";

/// The ids of the events whose dead letters have no value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ValuelessLetters {
    topic: String,
    ids: Vec<String>,
    /// Letters whose rows cannot be looked for: they have no id, or come after `LETTERS_MAX` others.
    unknown: u64,
}

/// Rows that are the only copy of what such letters are about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OnlyCopies {
    #[error(
        "{rows} rows of table {table} are in dead letters of topic {topic} that were too large to have a value: it is in the table alone"
    )]
    Rows { table: String, rows: i64, topic: String },
    #[error(
        "{letters} dead letters of topic {topic} were too large to have a value, and their rows cannot be told from others: they have no id, or \
         are more than {LETTERS_MAX}"
    )]
    Unknown { letters: u64, topic: String },
}

impl ValuelessLetters {
    /// Reads the dead-letter topic, if there is one and no archive keeps the rows.
    ///
    /// # Errors
    /// When Kafka cannot be read.
    pub(crate) async fn read(parts: &Arc<RelayParts>) -> Result<Self, kafka::Error> {
        let topic = parts.dead_letters.as_ref().map(|letters| DeadLetters::topic(letters).to_owned());
        let Some(topic) = topic.filter(|_| parts.relay.cleanup.archive.is_none()) else {
            return Ok(Self::default());
        };
        let (options, topics) = (parts.kafka.clone(), [topic.clone()]);
        let reading = spawn_blocking(move || {
            let (mut ids, mut unknown) = (BTreeSet::new(), 0_u64);
            let scan = TopicScan::open(&options, &topics, None)?;
            scan.read::<kafka::Error>(
                || true,
                |record| {
                    if !record.headers().any(|header| header.name == VALUE_LEFT_OUT_HEADER) {
                        return Ok(());
                    }
                    match record.event_id().and_then(plain_id) {
                        Some(id) if ids.len() < LETTERS_MAX || ids.contains(&id) => drop(ids.insert(id)),
                        _ => unknown = unknown.saturating_add(1),
                    }
                    Ok(())
                },
            )?;
            Ok(Self { topic, ids: ids.into_iter().collect(), unknown })
        });
        let aborted = |_| Err(kafka::Error::Fatal("the reading was aborted".to_owned()));
        reading.await.unwrap_or_else(aborted)
    }

    /// Whether rows of these tables are the only copies of what letters are about.
    ///
    /// # Errors
    /// When PostgreSQL does not answer.
    pub(crate) async fn only_copies(
        &self,
        sql: &Sql,
        parts: &RelayParts,
        tables: &[TableFacts],
    ) -> Result<Option<OnlyCopies>, postgres::Error> {
        let Some(router) = parts.route.outbox() else { return Ok(None) };
        if self.unknown > 0 {
            return Ok(Some(OnlyCopies::Unknown { letters: self.unknown, topic: self.topic.clone() }));
        }
        if self.ids.is_empty() {
            return Ok(None);
        }
        for table in tables {
            let Some(column) = id_column(sql, router, table).await? else { continue };
            let (quoted, column) = (table.quoted(), escape_identifier(&column));
            let query = format!("select count(*) from {quoted} where {column}::text = any($1)");
            let found =
                sql.query("looking for rows that dead letters refer to", &query, &[&self.ids]).await?;
            let rows: i64 = found.first().and_then(|row| row.try_get(0).ok()).unwrap_or_default();
            if rows > 0 {
                let (table, topic) = (format!("{}.{}", table.schema, table.name), self.topic.clone());
                return Ok(Some(OnlyCopies::Rows { table, rows, topic }));
            }
        }
        Ok(None)
    }
}

impl OnlyCopies {
    /// What to do about it.
    pub(crate) const CURE: &str = "keep the rows elsewhere: --archive-folder DIR or --archive-table TABLE \
                                   (outboxd.cleanup.archive.folder, outboxd.cleanup.archive.table)";
}

/// The column of the event's id, or the one that is taken for it.
async fn id_column(
    sql: &Sql,
    router: &EventRouter,
    table: &TableFacts,
) -> Result<Option<String>, postgres::Error> {
    let columns = sql.describe(table.oid).await?;
    let Ok(bound) = router.bind(&relation_of(table, &columns), &columns) else { return Ok(None) };
    let named = router.required_columns().into_iter().find(|(option, _)| *option == EVENT_ID);
    let taken = bound.assumptions().iter().find(|assumption| assumption.option == EVENT_ID);
    let taken = taken.map(|assumption| assumption.used.clone());
    Ok(taken.or_else(|| named.map(|(_, column)| column.to_owned())))
}
