//! Sequence numbers that a command skips.

use crate::cli::change::inbox::tables::Tables;
use crate::postgres::Error;

/// Numbers that are given up become dead letters, as in the crate: they are handled when they are received again.
const MARK_DEAD: &str = "INSERT INTO inbox_sequence_dead (consumer, topic, key, number) \
     SELECT $1::text, $5::text, $2::bytea, number FROM generate_series($3::bigint, $4::bigint) AS number ON CONFLICT DO NOTHING";

/// The next number of the key is the first one after $3 that is no dead letter.
const PASS: &str = "WITH dead AS (SELECT number FROM inbox_sequence_dead \
         WHERE consumer = $1 AND topic = $4 AND key = $2 AND number > $3::bigint), \
     after AS (SELECT min(number) AS next FROM (SELECT $3::bigint + 1 AS number UNION ALL SELECT number + 1 FROM dead) AS candidate \
         WHERE NOT EXISTS (SELECT FROM dead WHERE dead.number = candidate.number)) \
     INSERT INTO inbox_sequence AS known (consumer, topic, key, next, first) SELECT $1, $4, $2, after.next, $3 FROM after \
     ON CONFLICT (consumer, topic, key) DO UPDATE SET next = excluded.next WHERE known.next = $3::bigint";

/// Numbers of a key, from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) first: i64,
    pub(super) last: i64,
}

impl Numbers {
    pub(super) const fn one(number: i64) -> Self {
        Self { first: number, last: number }
    }
}

/// A key of a topic, whose events have the numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyOfTopic<'k> {
    pub(super) consumer: &'k str,
    pub(super) topic: &'k str,
    pub(super) key: &'k [u8],
}

/// Marks numbers as dead letters.
pub(super) async fn mark_dead(tables: &Tables, of: KeyOfTopic<'_>, numbers: Numbers) -> Result<(), Error> {
    let KeyOfTopic { consumer, topic, key } = of;
    tables.change(MARK_DEAD, &[&consumer, &key, &numbers.first, &numbers.last, &topic]).await.map(drop)
}

/// Advances the key past its next number, and past the following ones that are dead letters.
pub(super) async fn pass(tables: &Tables, of: KeyOfTopic<'_>, number: i64) -> Result<(), Error> {
    let KeyOfTopic { consumer, topic, key } = of;
    tables.change(PASS, &[&consumer, &key, &number, &topic]).await.map(drop)
}
