//! Reads the topics.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::VerifyError;
use super::rows::TopicList;
use super::scratch::Spill;
use crate::cli::shell::decoding;
use crate::cli::shell::decoding::{MissingSchema, RecordDecoder};
use crate::cli::shell::notice::open_scan;
use crate::cli::shell::progress::Progress;
use crate::connect::record::VALUE_OMITTED_HEADER;
use crate::kafka::{self, ScannedPartition, ScannedRecord};
use crate::registry::Registries;
use crate::verification::{Contents, Entry, Found, Identity, Positions, TopicNumber, TraceHeaders};

/// Extraction of entries from records.
pub(super) trait Finder: Send + 'static {
    type Found: Entry + Send;

    /// Returns the entry of a record, if it has one.
    fn find(
        &mut self,
        record: &ScannedRecord<'_>,
        topic: TopicNumber,
        decoder: &mut RecordDecoder,
    ) -> Result<Option<Self::Found>, VerifyError>;
}

/// Inputs of reading the topics.
pub(super) struct RecordReader<F: Finder> {
    pub(super) options: kafka::Options,
    pub(super) topics: TopicList,
    pub(super) since_ms: Option<i64>,
    pub(super) share: Option<u64>,
    pub(super) records: Spill<F::Found>,
    pub(super) finder: F,
    pub(super) progress: Progress,
}

/// Result of reading the topics.
pub(super) struct RecordsRead<F: Finder> {
    pub(super) topics: TopicsRead,
    pub(super) records: Spill<F::Found>,
    pub(super) finder: F,
}

/// The topics that were read.
pub(super) struct TopicsRead {
    pub(super) list: TopicList,
    pub(super) partitions: Vec<ScannedPartition>,
    /// The timestamp of the first record that was read of each partition.
    pub(super) oldest_ms: HashMap<(TopicNumber, i32), i64>,
    /// Number of records that were read.
    pub(super) count: u64,
}

/// Flag that ends the reading when its result is not needed any more.
struct Withdrawn(Arc<AtomicBool>);

impl Drop for Withdrawn {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<F: Finder> RecordReader<F> {
    /// Reads what the topics have now.
    pub(super) async fn read(self, registries: &Registries) -> Result<RecordsRead<F>, VerifyError> {
        let withdrawn = Arc::new(AtomicBool::new(false));
        let _guard = Withdrawn(Arc::clone(&withdrawn));
        let wanted = move || !withdrawn.load(Ordering::Relaxed);
        let reading =
            decoding::run(registries, MissingSchema::Fails, move |decoder| self.read_all(&wanted, decoder));
        reading.await.unwrap_or(Err(VerifyError::Aborted))
    }

    fn read_all(
        self,
        wanted: &dyn Fn() -> bool,
        mut decoder: RecordDecoder,
    ) -> Result<RecordsRead<F>, VerifyError> {
        let Self { options, topics: list, since_ms, share, mut records, mut finder, progress } = self;
        let scan = open_scan(&options, &list.names, since_ms, &progress)?;
        progress.begin("reading records", Some(offsets(scan.partitions())));
        let (mut oldest_ms, mut count) = (HashMap::new(), 0_u64);
        scan.read(wanted, |record| {
            count = count.saturating_add(1);
            progress.step();
            let Some(topic) = list.find(record.topic()) else { return Ok(()) };
            if let Some(millis) = record.timestamp_ms() {
                oldest_ms.entry((topic, record.partition())).or_insert(millis);
            }
            let Some(found) = finder.find(record, topic, &mut decoder)? else { return Ok(()) };
            if share.is_none_or(|share| found.identity().is_in_share(share)) {
                records.add(&found)?;
            }
            Ok::<_, VerifyError>(())
        })?;
        let partitions = scan.partitions().to_vec();
        Ok(RecordsRead { topics: TopicsRead { list, partitions, oldest_ms, count }, records, finder })
    }
}

/// Finds the records of an outbox's rows.
pub(super) struct EventFinder {
    pub(super) positions: Positions,
    pub(super) traces: TraceHeaders,
}

impl Finder for EventFinder {
    type Found = Found;

    fn find(
        &mut self,
        record: &ScannedRecord<'_>,
        topic: TopicNumber,
        _decoder: &mut RecordDecoder,
    ) -> Result<Option<Found>, VerifyError> {
        let headers = record.headers().map(|header| (header.name, header.value));
        let contents = Contents::new(record.key(), record.value(), headers, self.traces);
        let partition = record.partition();
        Ok(Some(Found {
            identity: Identity::new(record.event_id(), contents),
            contents,
            topic,
            partition,
            offset: record.offset(),
            timestamp_ms: record.created_ms(),
            behind: record.position().is_some_and(|text| self.positions.is_behind(topic, partition, text)),
            without_value: record.headers().any(|header| header.name == VALUE_OMITTED_HEADER),
        }))
    }
}

fn offsets(partitions: &[ScannedPartition]) -> u64 {
    let count = |partition: &ScannedPartition| {
        u64::try_from(partition.end.saturating_sub(partition.from)).unwrap_or(0)
    };
    partitions.iter().map(count).sum()
}
