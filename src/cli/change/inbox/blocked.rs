//! Keys with parked events.

use serde::Serialize;
use serde_json::Value;
use tokio_postgres::Row;

use super::reason::{Reason, WaitState};
use super::tables::{Tables, get};
use crate::cli::shell::text::{clean, columns, object, shown};
use crate::cli::shell::time;
use crate::postgres::Error;

/// Blocked keys with their first event. An event without a key blocks nothing but itself.
const SELECT: &str = "WITH blocked AS (\
         SELECT held.consumer, held.topic, held.partition, parked.partition_id, parked.key, \
             min(parked.\"offset\") AS first, count(*) AS events \
         FROM inbox_parked AS parked JOIN inbox_partition AS held ON held.id = parked.partition_id \
         WHERE $1::text IS NULL OR held.consumer = $1 \
         GROUP BY held.id, parked.partition_id, parked.key, CASE WHEN parked.key IS NULL THEN parked.\"offset\" END\
     ) SELECT blocked.consumer, blocked.topic, blocked.partition, blocked.first, blocked.key, blocked.events, \
     parked.attempts, parked.begun, parked.is_dead, parked.number, sequence.next, \
     (extract(epoch FROM parked.not_before) * 1000)::bigint, parked.not_before <= now(), \
     (extract(epoch FROM parked.parked_at) * 1000)::bigint FROM blocked \
     JOIN inbox_parked AS parked ON parked.partition_id = blocked.partition_id AND parked.\"offset\" = blocked.first \
     LEFT JOIN inbox_sequence AS sequence ON sequence.consumer = blocked.consumer AND sequence.topic = blocked.topic AND sequence.key = blocked.key \
     ORDER BY parked.parked_at, blocked.partition_id, blocked.first LIMIT $2";

const HEAD: [&str; 7] = ["CONSUMER", "KEY", "EVENTS", "FIRST", "WAITS FOR", "ATTEMPTS", "PARKED"];

/// A key with parked events.
#[derive(Debug, Serialize)]
pub(super) struct BlockedKey {
    pub(super) consumer: String,
    pub(super) key: Value,
    pub(super) events: i64,
    /// The first event.
    pub(super) at: String,
    pub(super) reason: Reason,
    pub(super) attempts: i32,
    pub(super) next_attempt: i64,
    /// The number that is missing.
    pub(super) missing_number: Option<i64>,
    pub(super) parked_at: i64,
    #[serde(skip)]
    shown_key: String,
}

/// Reads the blocked keys of a consumer, or of all, that wait longest.
pub(super) async fn blocked_keys(
    tables: &Tables,
    consumer: Option<&str>,
    max: u32,
) -> Result<Vec<BlockedKey>, Error> {
    tables.query(SELECT, &[&consumer, &i64::from(max)]).await?.iter().map(BlockedKey::read).collect()
}

/// Returns blocked keys as a table.
pub(super) fn table(keys: &[BlockedKey]) -> String {
    let head = std::iter::once(HEAD.map(str::to_owned));
    columns(&head.chain(keys.iter().map(BlockedKey::cells)).collect::<Vec<_>>())
}

impl BlockedKey {
    fn read(row: &Row) -> Result<Self, Error> {
        let (topic, partition, offset): (String, i32, i64) = (get(row, 1)?, get(row, 2)?, get(row, 3)?);
        let key: Option<Vec<u8>> = get(row, 4)?;
        let state = WaitState {
            is_dead: get(row, 8)?,
            number: get(row, 9)?,
            next: get(row, 10)?,
            is_behind: false,
            is_due: get(row, 12)?,
            begun: get(row, 7)?,
        };
        let reason = state.reason();
        Ok(Self {
            consumer: get(row, 0)?,
            key: object(key.as_deref()),
            events: get(row, 5)?,
            at: format!("{topic}:{partition}:{offset}"),
            reason,
            attempts: get(row, 6)?,
            next_attempt: get(row, 11)?,
            missing_number: state.next.filter(|_| reason == Reason::MissingNumber),
            parked_at: get(row, 13)?,
            shown_key: key.map_or_else(|| "-".to_owned(), |key| shown(Some(&key))),
        })
    }

    fn cells(&self) -> [String; 7] {
        let waits_for = match (self.reason, self.missing_number) {
            (Reason::DeadLetter, _) => "release".to_owned(),
            (Reason::MissingNumber, Some(number)) => format!("number {number}"),
            (Reason::MissingNumber, None) => "an earlier number".to_owned(),
            (Reason::Retry | Reason::Crash, _) => time::show(self.next_attempt),
            (Reason::Behind | Reason::Due, _) => "consumer".to_owned(),
        };
        [
            clean(&self.consumer),
            self.shown_key.clone(),
            self.events.to_string(),
            clean(&self.at),
            waits_for,
            self.attempts.to_string(),
            time::show(self.parked_at),
        ]
    }
}
