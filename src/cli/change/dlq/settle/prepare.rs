//! The record that `replay` sends for a dead letter.

use outboxd_inbox::dead_letter::{Contents, DeadLetter, REPLAY_COUNT, REPLAYED_FROM};

use super::super::error::DlqError;
use super::super::letter::Letter;
use super::super::object::view;
use super::super::plan::Hold;
use super::super::state;
use super::Settlement;
use crate::connect::record::{Header, ID_HEADER, ProducerRecord};
use crate::kafka::StoredRecord;

/// Replacement of a dead letter.
pub(super) struct Prepared {
    /// Record; none when it is discarded.
    pub(super) record: Option<Outgoing>,
    pub(super) event_id: Option<String>,
}

/// The original record, with the header that marks it as sent again.
pub(super) struct Outgoing {
    pub(super) topic: String,
    partition: Option<i32>,
    record: StoredRecord,
}

impl Prepared {
    /// Returns the approximate size in bytes.
    pub(super) fn weight(&self) -> usize {
        let length = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        self.record.as_ref().map_or(0, |Outgoing { record, .. }| {
            let headers = record.headers.iter().map(|(name, value)| name.len().saturating_add(length(value)));
            length(&record.key).saturating_add(length(&record.value)).saturating_add(headers.sum())
        })
    }
}

impl Outgoing {
    pub(super) fn with(&self, send: impl FnOnce(&ProducerRecord<'_>)) {
        let headers = self.record.headers.iter();
        let headers: Vec<_> = headers.map(|(name, value)| Header { name, value: value.as_deref() }).collect();
        send(&ProducerRecord {
            topic: &self.topic,
            partition: self.partition,
            timestamp_ms: self.record.timestamp_ms.unwrap_or_default(),
            key: self.record.key.as_deref(),
            value: self.record.value.as_deref(),
            headers: &headers,
            position: None,
        });
    }
}

impl Settlement<'_> {
    /// Reads a dead letter, and the record it refers to.
    pub(super) fn prepare(&mut self, letter: &Letter) -> Result<Result<Prepared, Hold>, DlqError> {
        let (source, stop) = (&self.context.source, &self.context.stop);
        let [letters, _] = &mut self.readers;
        let Some(record) = source.record(letters, letter.partition, letter.offset, stop)? else {
            return Ok(Err(Hold::Gone));
        };
        if view(&record).digest() != letter.digest {
            return Ok(Err(Hold::Changed));
        }
        let event_id = event_id(&record);
        let Some(target) = self.target else { return Ok(Ok(Prepared { record: None, event_id })) };
        let read = view(&record).read();
        let Some((topic, partition)) = target.of(self.index, letter) else { return Ok(Err(Hold::NoOrigin)) };
        let record = match (letter.contents, &read) {
            (Contents::Reference, Some(read)) => match self.original(read)? {
                Some(original) => original,
                None => return Ok(Err(Hold::OriginGone)),
            },
            (_, read) => without_error(record, read.as_ref()),
        };
        let replays = view(&record).replays();
        if replays >= target.max_replays {
            return Ok(Err(Hold::Replayed));
        }
        let from = state::key(&self.context.source.topic, letter.partition, letter.offset);
        let event_id = event_id.or_else(|| self::event_id(&record));
        let record = marked(record, replays.saturating_add(1), from);
        Ok(Ok(Prepared { record: Some(Outgoing { topic: topic.to_owned(), partition, record }), event_id }))
    }

    /// Reads the record that a dead letter only names.
    fn original(&mut self, read: &DeadLetter) -> Result<Option<StoredRecord>, DlqError> {
        let Some(origin) = &read.origin else { return Ok(None) };
        let (Some(partition), Some(offset)) = (origin.partition, origin.offset) else { return Ok(None) };
        let [_, originals] = &mut self.readers;
        Ok(originals.read(&origin.topic, partition, offset, &self.context.stop)?)
    }
}

/// Returns the original record of a dead letter: without the headers of the failure, and with its timestamp.
fn without_error(mut record: StoredRecord, read: Option<&DeadLetter>) -> StoredRecord {
    let Some(read) = read else { return record };
    record.headers.retain(|(name, _)| !read.dialect.owns(name));
    let timestamp_ms = read.origin.as_ref().and_then(|origin| origin.timestamp_ms);
    record.timestamp_ms = timestamp_ms.or(record.timestamp_ms);
    record
}

fn marked(mut record: StoredRecord, replays: u32, from: String) -> StoredRecord {
    record.headers.retain(|(name, _)| ![REPLAY_COUNT, REPLAYED_FROM].contains(&name.as_str()));
    let marks = [(REPLAY_COUNT, replays.to_string()), (REPLAYED_FROM, from)];
    record.headers.extend(marks.map(|(name, value)| (name.to_owned(), Some(value.into_bytes()))));
    record
}

fn event_id(record: &StoredRecord) -> Option<String> {
    let (_, value) = record.headers.iter().find(|(name, _)| name == ID_HEADER)?;
    value.as_ref().map(|value| String::from_utf8_lossy(value).into_owned())
}
