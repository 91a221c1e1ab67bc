//! Reads the topics.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::spawn_blocking;

use super::error::VerifyError;
use super::rows::TopicList;
use super::scratch::Spill;
use crate::cli::progress::Progress;
use crate::kafka::{self, ScannedPartition, ScannedRecord, TopicScan};
use crate::verification::{Contents, Found, Identity, Positions, TopicNumber};

/// What reading the topics is given.
pub(super) struct RecordReader {
    pub(super) options: kafka::Options,
    pub(super) topics: TopicList,
    pub(super) since_ms: Option<i64>,
    pub(super) share: Option<u64>,
    pub(super) records: Spill<Found>,
    pub(super) progress: Progress,
}

/// What came of it.
pub(super) struct RecordsRead {
    pub(super) topics: TopicList,
    pub(super) records: Spill<Found>,
    pub(super) partitions: Vec<ScannedPartition>,
    /// The timestamp of the first record that was read of each partition.
    pub(super) oldest_ms: HashMap<(TopicNumber, i32), i64>,
    /// How many records were read, and how many of them tell their position.
    pub(super) count: u64,
    pub(super) with_position: u64,
}

/// Ends the reading when nobody waits for it any more.
struct Withdrawn(Arc<AtomicBool>);

impl Drop for Withdrawn {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl RecordReader {
    /// Reads what the topics have now.
    pub(super) async fn read(self) -> Result<RecordsRead, VerifyError> {
        let withdrawn = Arc::new(AtomicBool::new(false));
        let _guard = Withdrawn(Arc::clone(&withdrawn));
        let reading = spawn_blocking(move || self.read_all(&|| !withdrawn.load(Ordering::Relaxed)));
        reading.await.unwrap_or(Err(VerifyError::Aborted))
    }

    fn read_all(self, wanted: &dyn Fn() -> bool) -> Result<RecordsRead, VerifyError> {
        let Self { options, topics, since_ms, share, mut records, progress } = self;
        let scan = TopicScan::open(&options, &topics.names, since_ms)?;
        progress.begin("reading records", Some(offsets(scan.partitions())));
        let (mut positions, mut oldest_ms, mut count) = (Positions::default(), HashMap::new(), 0_u64);
        scan.read(wanted, |record| {
            count = count.saturating_add(1);
            progress.step();
            let Some(topic) = topics.find(record.topic()) else { return Ok(()) };
            if let Some(millis) = record.timestamp_ms() {
                oldest_ms.entry((topic, record.partition())).or_insert(millis);
            }
            let found = found(record, topic, &mut positions);
            if share.is_none_or(|share| found.identity.is_in_share(share)) {
                records.add(&found)?;
            }
            Ok::<_, VerifyError>(())
        })?;
        let (partitions, with_position) = (scan.partitions().to_vec(), positions.seen());
        Ok(RecordsRead { topics, records, partitions, oldest_ms, count, with_position })
    }
}

fn found(record: &ScannedRecord<'_>, topic: TopicNumber, positions: &mut Positions) -> Found {
    let headers = record.headers().map(|header| (header.name, header.value));
    let contents = Contents::new(record.key(), record.value(), headers);
    let partition = record.partition();
    Found {
        identity: Identity::new(record.event_id(), contents),
        contents,
        topic,
        partition,
        offset: record.offset(),
        timestamp_ms: record.created_ms(),
        behind: record.position().is_some_and(|text| positions.is_behind(topic, partition, text)),
    }
}

fn offsets(partitions: &[ScannedPartition]) -> u64 {
    let count = |partition: &ScannedPartition| {
        u64::try_from(partition.end.saturating_sub(partition.from)).unwrap_or(0)
    };
    partitions.iter().map(count).sum()
}
