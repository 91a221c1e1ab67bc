//! `outboxd inbox ls`.

use serde::Serialize;
use tokio_postgres::Row;

use super::args::LsArgs;
use super::blocked::{self, BlockedKey, blocked_keys};
use super::error::InboxError;
use super::partition::{self, ParkedCounts, Partition, partitions};
use super::tables::{Tables, get};
use crate::cli::print;
use crate::cli::shell::text::clean;
use crate::error::Exit;
use crate::postgres::Error;

const SEQUENCES: &str = "SELECT consumer, count(*), (SELECT count(*) FROM inbox_sequence_dead AS dead WHERE dead.consumer = known.consumer) \
     FROM inbox_sequence AS known WHERE $1::text IS NULL OR consumer = $1 GROUP BY consumer ORDER BY consumer";

#[derive(Debug, Serialize)]
struct Listing {
    schema: String,
    version: i32,
    partitions: Vec<Partition>,
    blocked_keys: Vec<BlockedKey>,
    sequences: Vec<SequenceSummary>,
}

/// Keys of a consumer with Dedupe::Sequence.
#[derive(Debug, Serialize)]
struct SequenceSummary {
    consumer: String,
    keys: i64,
    dead_letters: i64,
}

/// Runs `outboxd inbox ls`.
pub(super) async fn ls(args: &LsArgs) -> Result<Exit, InboxError> {
    let tables = Tables::open(&args.tables).await?;
    if let Some(consumer) = &args.consumer {
        tables.check_consumer(consumer).await?;
    }
    let consumer = args.consumer.as_deref();
    let sequences = tables.query(SEQUENCES, &[&consumer]).await?;
    let listing = Listing {
        partitions: partitions(&tables, consumer).await?,
        blocked_keys: blocked_keys(&tables, consumer, args.keys).await?,
        sequences: sequences.iter().map(SequenceSummary::read).collect::<Result<_, _>>()?,
        schema: tables.schema,
        version: tables.version,
    };
    if args.tables.json {
        print(&format!("{}\n", serde_json::to_value(&listing).unwrap_or_default()));
    } else {
        print(&listing.text());
    }
    Ok(Exit::Ok)
}

impl SequenceSummary {
    fn read(row: &Row) -> Result<Self, Error> {
        Ok(Self { consumer: get(row, 0)?, keys: get(row, 1)?, dead_letters: get(row, 2)? })
    }
}

impl Listing {
    fn text(&self) -> String {
        let mut text = partition::table(&self.partitions);
        if !self.blocked_keys.is_empty() {
            text.push_str(&format!("\n{}", blocked::table(&self.blocked_keys)));
        }
        let blocked: i64 = self.partitions.iter().map(|partition| partition.blocked_keys).sum();
        let listed = i64::try_from(self.blocked_keys.len()).unwrap_or(i64::MAX);
        if let more @ 1.. = blocked.saturating_sub(listed) {
            text.push_str(&format!("and {more} more blocked keys (--keys N lists more)\n"));
        }
        let sum = |count: fn(&ParkedCounts) -> i64| {
            self.partitions.iter().map(|partition| count(&partition.parked)).sum::<i64>()
        };
        text.push_str(&format!(
            "\n{} parked: retry {}, crash {}, missing number {}, dead letter {}\n",
            sum(|parked| parked.total),
            sum(|parked| parked.retry),
            sum(|parked| parked.crash),
            sum(|parked| parked.missing_number),
            sum(|parked| parked.dead_letter),
        ));
        for SequenceSummary { consumer, keys, dead_letters } in &self.sequences {
            let consumer = clean(consumer);
            text.push_str(&format!("{consumer}: keys with numbers {keys}, dead numbers {dead_letters}\n"));
        }
        text
    }
}
