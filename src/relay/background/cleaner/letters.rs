//! Dead letters that refer to rows: one that was too large was written without its value, which is only in
//! the table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use postgres_protocol::escape::escape_identifier;
use tokio::task::spawn_blocking;

use crate::connect::event_id::plain_id;
use crate::connect::record::{Header, ID_HEADER, VALUE_OMITTED_HEADER};
use crate::kafka::{self, TopicScan};
use crate::outbox::EventRouter;
use crate::postgres::{self, Sql, TableFacts};
use crate::relay::capture::resolution::relation_of;
use crate::relay::delivery::dead_letters::DeadLetters;
use crate::relay::parts::RelayParts;

/// Most dead letters without a value that are remembered. With more, nothing is deleted.
const LETTERS_MAX: usize = 100_000;

const EVENT_ID: &str = "table.field.event.id";

/// The topic that a dead letter was meant for, with `errors.deadletterqueue.context.headers.enable`.
const ORIGIN_HEADER: &str = "__connect.errors.topic";

/// The ids of the events whose dead letters have no value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ValuelessDeadLetters {
    topic: String,
    ids: BTreeSet<String>,
    /// Dead letters whose header `id` is null: their rows have no id.
    of_null: u64,
    /// Dead letters without a header `id`, which no EventRouter writes, by the topics that they were meant
    /// for.
    others: BTreeMap<String, u64>,
    /// Dead letters whose rows cannot be found: they name no row, or they come after `LETTERS_MAX` others.
    unknown: u64,
}

/// Reference of a dead letter to its row.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Letter {
    Id(String),
    Null,
    Origin(String),
    Unknown,
}

/// Rows of a table that are the only copy of a dead letter's value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OnlyCopies {
    #[error(
        "{rows} rows of table {table} are in dead letters of topic {topic} that were too large to have a value: it is only in the table"
    )]
    Rows { table: String, rows: i64, topic: String },
    #[error(
        "{letters} dead letters of topic {topic} were too large to have a value, and their rows may be any of table {table}: they have no id, or \
         are more than {LETTERS_MAX}"
    )]
    Unknown { table: String, letters: u64, topic: String },
}

impl ValuelessDeadLetters {
    /// Reads the dead-letter topic, if there is one and rows are not archived.
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
            let mut letters = Self { topic, ..Self::default() };
            let scan = TopicScan::open(&options, &topics, None)?;
            scan.read::<kafka::Error>(
                || true,
                |record| {
                    if record.headers().any(|header| header.name == VALUE_OMITTED_HEADER) {
                        letters.add(Letter::read(record.headers()));
                    }
                    Ok(())
                },
            )?;
            Ok(letters)
        });
        let aborted = |_| Err(kafka::Error::Fatal("the reading was aborted".to_owned()));
        reading.await.unwrap_or_else(aborted)
    }

    fn add(&mut self, letter: Letter) {
        let has_room = |length: usize| length < LETTERS_MAX;
        match letter {
            Letter::Id(id) if has_room(self.ids.len()) || self.ids.contains(&id) => drop(self.ids.insert(id)),
            Letter::Null => self.of_null = self.of_null.saturating_add(1),
            Letter::Origin(topic) if has_room(self.others.len()) || self.others.contains_key(&topic) => {
                let count = self.others.entry(topic).or_default();
                *count = count.saturating_add(1);
            }
            Letter::Id(_) | Letter::Origin(_) | Letter::Unknown => {
                self.unknown = self.unknown.saturating_add(1);
            }
        }
    }

    /// Returns why rows of a table may be the only copies of values of dead letters, if they may be.
    ///
    /// # Errors
    /// When PostgreSQL does not answer.
    pub(crate) async fn only_copies(
        &self,
        sql: &Sql,
        parts: &RelayParts,
        facts: &TableFacts,
    ) -> Result<Option<OnlyCopies>, postgres::Error> {
        let Some(router) = parts.route.outbox() else { return Ok(None) };
        let (table, topic) = (format!("{}.{}", facts.schema, facts.name), self.topic.clone());
        if let letters @ 1.. = self.of_any_row(router, &table) {
            return Ok(Some(OnlyCopies::Unknown { table, letters, topic }));
        }
        if self.ids.is_empty() && self.of_null == 0 {
            return Ok(None);
        }
        let Some(column) = id_column(sql, router, facts).await? else {
            let letters = u64::try_from(self.ids.len()).unwrap_or(u64::MAX).saturating_add(self.of_null);
            return Ok(Some(OnlyCopies::Unknown { table, letters, topic }));
        };
        let (quoted, column) = (facts.quoted(), escape_identifier(&column));
        let query = format!(
            "select count(*) from {quoted} where {column}::text = any($1) or $2 and {column} is null"
        );
        let ids: Vec<&String> = self.ids.iter().collect();
        let doing = "searching for rows that dead letters refer to";
        let found = sql.query(doing, &query, &[&ids, &(self.of_null > 0)]).await?;
        // A number that cannot be read must not let rows be deleted.
        let rows: i64 = match found.first() {
            Some(row) => row.try_get(0).map_err(|error| postgres::Error::sql(doing, error))?,
            None => 0,
        };
        Ok((rows > 0).then_some(OnlyCopies::Rows { table, rows, topic }))
    }

    /// Returns the number of dead letters that may refer to any row of a table. One for a topic that neither
    /// the router nor the name of the table leads to refers to another table.
    fn of_any_row(&self, router: &EventRouter, table: &str) -> u64 {
        let suffix = format!(".{table}");
        let may_be_of = |topic: &str| router.may_lead_to(topic) || topic.ends_with(&suffix);
        let others = self.others.iter().filter(|(topic, _)| may_be_of(topic)).map(|(_, count)| *count);
        others.fold(self.unknown, u64::saturating_add)
    }
}

impl Letter {
    fn read<'r>(headers: impl Iterator<Item = Header<'r>>) -> Self {
        let headers: Vec<Header<'_>> = headers.collect();
        let named = |name: &str| headers.iter().find(|header| header.name == name);
        let origin = || named(ORIGIN_HEADER)?.value.and_then(|topic| String::from_utf8(topic.to_vec()).ok());
        match named(ID_HEADER).map(|header| header.value.map(plain_id)) {
            Some(None) => Self::Null,
            // A converter may write the null.
            Some(Some(Some(id))) if id == "null" => Self::Null,
            Some(Some(Some(id))) => Self::Id(id),
            Some(Some(None)) => Self::Unknown,
            None => origin().map_or(Self::Unknown, Self::Origin),
        }
    }
}

impl OnlyCopies {
    /// Returns the table, with its schema.
    pub(crate) fn table(&self) -> &str {
        match self {
            Self::Rows { table, .. } | Self::Unknown { table, .. } => table,
        }
    }

    /// Fix of the error.
    pub(crate) const FIX: &str = "keep the rows elsewhere: --archive-folder DIR or --archive-table TABLE \
                                   (outboxd.cleanup.archive.folder, outboxd.cleanup.archive.table)";
}

/// Returns the column of the event's id, or the column that is used instead.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::capture::captured::route;

    #[test]
    fn a_dead_letter_refers_to_its_row_by_id_or_topic() {
        let header = |name, value: Option<&'static str>| Header { name, value: value.map(str::as_bytes) };
        let cases = [
            (vec![header("id", Some("7"))], Letter::Id("7".to_owned())),
            (vec![header("id", Some("\"7\"")), header(ORIGIN_HEADER, Some("a"))], Letter::Id("7".to_owned())),
            (vec![header("id", None)], Letter::Null),
            (vec![header("id", Some("null"))], Letter::Null),
            (vec![header("id", Some("{\"a\":1}"))], Letter::Unknown),
            (vec![header(ORIGIN_HEADER, Some("a"))], Letter::Origin("a".to_owned())),
            (vec![header(ORIGIN_HEADER, None)], Letter::Unknown),
            (vec![], Letter::Unknown),
        ];
        for (headers, expected) in cases {
            assert_eq!(Letter::read(headers.iter().copied()), expected, "{headers:?}");
        }
    }

    /// Counts each dead letter that may refer to the table, and no other.
    #[test]
    fn dead_letters_for_topics_of_other_tables_do_not_count() {
        let route = route();
        let router = route.outbox().unwrap();
        let of = |letters: &[Letter]| {
            let mut all = ValuelessDeadLetters::default();
            letters.iter().cloned().for_each(|letter| all.add(letter));
            all.of_any_row(router, "public.outbox")
        };
        let meant_for = |topic: &str| Letter::Origin(topic.to_owned());
        let routed = router.topic("order").unwrap();
        assert_eq!(
            of(&[meant_for("inventory.public.customers"), Letter::Id("7".to_owned()), Letter::Null]),
            0
        );
        assert_eq!(of(&[meant_for("inventory.public.outbox")]), 1);
        assert_eq!(of(&[meant_for(&routed), meant_for(&routed), Letter::Unknown]), 3);
    }
}
