//! Partitions in the tables.

use serde::Serialize;
use tokio_postgres::Row;

use super::tables::{Tables, get};
use crate::cli::shell::text::{clean, columns};
use crate::cli::shell::time;
use crate::postgres::Error;

/// Each parked event has one reason. Those without an attempt wait for another event of their key, or are due.
const SELECT: &str = "SELECT held.consumer, held.topic, held.partition, held.consumer_group, held.epoch, held.next_offset, \
     count(parked.\"offset\"), count(*) FILTER (WHERE parked.is_dead), \
     count(*) FILTER (WHERE NOT parked.is_dead AND parked.number > coalesce(sequence.next, parked.number - 1)), \
     count(*) FILTER (WHERE NOT parked.is_dead AND parked.begun > 0), \
     count(*) FILTER (WHERE NOT parked.is_dead AND parked.begun = 0 AND parked.attempts > 0), \
     count(DISTINCT parked.key) + count(*) FILTER (WHERE parked.\"offset\" IS NOT NULL AND parked.key IS NULL), \
     min(coalesce(parked.timestamp_ms, (extract(epoch FROM parked.parked_at) * 1000)::bigint)), \
     (extract(epoch FROM min(parked.not_before) FILTER (WHERE NOT parked.is_dead AND parked.attempts + parked.begun > 0)) * 1000)::bigint, \
     (SELECT count(*) FROM inbox_attempt AS attempt WHERE attempt.partition_id = held.id), \
     (SELECT count(*) FROM pg_locks AS lock WHERE lock.locktype = 'advisory' AND lock.granted \
         AND lock.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         AND lock.classid = (inbox_lock_class()::bigint & 4294967295)::oid AND lock.objid = held.id::oid) \
     FROM inbox_partition AS held LEFT JOIN inbox_parked AS parked ON parked.partition_id = held.id \
     LEFT JOIN inbox_sequence AS sequence ON sequence.consumer = held.consumer AND sequence.topic = held.topic AND sequence.key = parked.key \
     WHERE $1::text IS NULL OR held.consumer = $1 GROUP BY held.id ORDER BY held.consumer, held.topic, held.partition";

const HEAD: [&str; 10] = [
    "CONSUMER",
    "TOPIC",
    "PARTITION",
    "GROUP",
    "EPOCH",
    "OFFSET",
    "PARKED",
    "BLOCKED",
    "OLDEST",
    "NEXT ATTEMPT",
];

/// A partition of a consumer, as the tables have it.
#[derive(Debug, Serialize)]
pub(super) struct Partition {
    pub(super) consumer: String,
    pub(super) topic: String,
    pub(super) partition: i32,
    /// The consumer group that acquired the partition last.
    pub(super) group: Option<String>,
    pub(super) epoch: i64,
    pub(super) next_offset: Option<i64>,
    pub(super) parked: ParkedCounts,
    pub(super) blocked_keys: i64,
    /// Timestamp of the oldest parked event.
    pub(super) oldest: Option<i64>,
    pub(super) next_attempt: Option<i64>,
    /// Events that a process has begun and not ended.
    pub(super) begun: i64,
    /// Sessions with a transaction in the partition.
    pub(super) transactions: i64,
}

/// Numbers of parked events by the reason for which they wait.
#[derive(Debug, Serialize)]
pub(super) struct ParkedCounts {
    pub(super) total: i64,
    pub(super) dead_letter: i64,
    pub(super) missing_number: i64,
    pub(super) crash: i64,
    pub(super) retry: i64,
}

/// Reads the partitions of a consumer, or of all.
pub(super) async fn partitions(tables: &Tables, consumer: Option<&str>) -> Result<Vec<Partition>, Error> {
    tables.query(SELECT, &[&consumer]).await?.iter().map(Partition::read).collect()
}

/// Returns partitions as a table.
pub(super) fn table(partitions: &[Partition]) -> String {
    let head = std::iter::once(HEAD.map(str::to_owned));
    columns(&head.chain(partitions.iter().map(Partition::cells)).collect::<Vec<_>>())
}

impl Partition {
    fn read(row: &Row) -> Result<Self, Error> {
        let parked = ParkedCounts {
            total: get(row, 6)?,
            dead_letter: get(row, 7)?,
            missing_number: get(row, 8)?,
            crash: get(row, 9)?,
            retry: get(row, 10)?,
        };
        Ok(Self {
            consumer: get(row, 0)?,
            topic: get(row, 1)?,
            partition: get(row, 2)?,
            group: get(row, 3)?,
            epoch: get(row, 4)?,
            next_offset: get(row, 5)?,
            parked,
            blocked_keys: get(row, 11)?,
            oldest: get(row, 12)?,
            next_attempt: get(row, 13)?,
            begun: get(row, 14)?,
            transactions: get(row, 15)?,
        })
    }

    fn cells(&self) -> [String; 10] {
        let time = |time: Option<i64>| time.map_or_else(|| "-".to_owned(), time::show);
        [
            clean(&self.consumer),
            clean(&self.topic),
            self.partition.to_string(),
            self.group.as_deref().map_or_else(|| "-".to_owned(), clean),
            self.epoch.to_string(),
            self.next_offset.map_or_else(|| "-".to_owned(), |offset| offset.to_string()),
            self.parked.total.to_string(),
            self.blocked_keys.to_string(),
            time(self.oldest),
            time(self.next_attempt),
        ]
    }
}
