//! Index of the dead letters of a topic.

use std::collections::HashMap;

use outboxd_inbox::dead_letter::Contents;
use tokio_util::sync::CancellationToken;

use super::args::FilterArgs;
use super::error::DlqError;
use super::filter::Candidate;
use super::letter::{Cause, Digest, Letter, RecordView};
use super::source::Source;
use super::state::States;
use crate::cli::shell::notice::open_scan;
use crate::cli::shell::progress::Progress;
use crate::kafka::{ScannedPartition, ScannedRecord};

/// Most dead letters that are stored: some 150 bytes each.
const LETTERS_MAX: usize = 2_000_000;

/// The dead letters of a topic, without their values, by partition and offset.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) letters: Vec<Letter>,
    pub(super) causes: Vec<Cause>,
    /// Begin of each partition.
    pub(super) begins: HashMap<i32, i64>,
}

/// Dead letters to store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// Those that are not done, including those that no filter accepts: they have a place in their key's
    /// order.
    Open,
    /// Those that the filters accept, done or not.
    Selected,
}

impl Index {
    /// Reads the topic from the front to what is its end now. Blocks.
    pub(super) fn read(
        source: &Source,
        filter: &FilterArgs,
        states: &States,
        keep: Keep,
        stop: &CancellationToken,
        progress: &Progress,
    ) -> Result<Self, DlqError> {
        let scan = open_scan(&source.options, std::slice::from_ref(&source.topic), None, progress)?;
        let partitions = scan.partitions();
        if partitions.is_empty() {
            return Err(DlqError::NoTopic(source.topic.clone()));
        }
        source.check_places(&filter.places, partitions.len())?;
        progress.begin("reading dead letters", Some(count(partitions)));
        let begins = partitions.iter().map(|partition| (partition.id, partition.low)).collect();
        let mut index = Self { begins, ..Self::default() };
        let mut numbers = HashMap::new();
        scan.read(
            || !stop.is_cancelled(),
            |record| {
                progress.step();
                let letter = index.letter(record, filter, states, &mut numbers);
                let is_kept = match keep {
                    Keep::Open => letter.outcome.is_none(),
                    Keep::Selected => letter.selected,
                };
                if is_kept && index.letters.len() >= LETTERS_MAX {
                    return Err(DlqError::TooMany { topic: source.topic.clone(), max: LETTERS_MAX });
                }
                index.letters.extend(is_kept.then_some(letter));
                Ok(())
            },
        )?;
        index.letters.sort_unstable_by_key(|letter| (letter.partition, letter.offset));
        Ok(index)
    }

    pub(super) fn cause(&self, letter: &Letter) -> Option<&Cause> {
        self.causes.get(letter.cause)
    }

    fn letter(
        &mut self,
        record: &ScannedRecord<'_>,
        filter: &FilterArgs,
        states: &States,
        numbers: &mut HashMap<Cause, usize>,
    ) -> Letter {
        let view = RecordView {
            timestamp_ms: record.timestamp_ms(),
            key: record.key(),
            value: record.value(),
            headers: record.headers().map(|header| (header.name, header.value)).collect(),
        };
        let read = view.read();
        let cause = Cause::of(read.as_ref());
        let (partition, offset, digest) = (record.partition(), record.offset(), view.digest());
        let when_ms = read.as_ref().and_then(|letter| letter.failed_at_ms).or(view.timestamp_ms);
        let selected = filter.takes(&Candidate { partition, offset, when_ms, key: view.key, cause: &cause });
        let number = *numbers.entry(cause).or_insert_with_key(|cause| {
            self.causes.push(cause.clone());
            self.causes.len().saturating_sub(1)
        });
        let origin = read.as_ref().and_then(|letter| letter.origin.as_ref());
        Letter {
            partition,
            offset,
            when_ms,
            cause: number,
            origin_partition: origin.and_then(|origin| origin.partition),
            origin_offset: origin.and_then(|origin| origin.offset),
            key: view.key.map(Digest::of_key),
            contents: read.as_ref().map_or(Contents::Record, |letter| letter.contents),
            replays: view.replays(),
            digest,
            selected,
            outcome: states.of(partition, offset, digest),
        }
    }
}

fn count(partitions: &[ScannedPartition]) -> u64 {
    let each = partitions.iter().map(|partition| partition.end.saturating_sub(partition.from));
    each.map(|count| u64::try_from(count).unwrap_or_default()).sum()
}
