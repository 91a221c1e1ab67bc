//! Entries of the records of changes.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::probe::Table;
use super::rows::identity;
use crate::cli::prove::verify::error::VerifyError;
use crate::cli::prove::verify::records::Finder;
use crate::cli::shell::decoding::RecordDecoder;
use crate::connect::converter::registered::Side;
use crate::connect::record::DIGEST_HEADER;
use crate::kafka::ScannedRecord;
use crate::verification::{
    Change, Fields, Read, ReadSnapshot, State, TopicNumber, Truncated, Visibility, key_payload, read,
};

/// Parser of records.
pub(super) struct ChangeFinder {
    /// Fields of records that are no part of a row, by topic.
    volatile: HashMap<String, HashSet<u32>>,
    snapshot: ReadSnapshot,
    /// The truncates that were met.
    pub(super) truncated: Truncated,
    /// Number of records with the position of their change.
    pub(super) with_lsn: u64,
}

impl ChangeFinder {
    pub(super) fn new(tables: &[Table], snapshot: ReadSnapshot) -> Self {
        let mut volatile: HashMap<String, HashSet<u32>> = HashMap::new();
        for table in tables {
            volatile.entry(table.topic.clone()).or_default().extend(&table.volatile);
        }
        Self { volatile, snapshot, truncated: Truncated::new(), with_lsn: 0 }
    }

    /// Returns the volatile fields of a topic. Rows may lead to topics that the probe has not met.
    fn volatile_of(&self, topic: &str) -> impl Iterator<Item = &HashSet<u32>> {
        let known = self.volatile.get(topic);
        let others = if known.is_none() { Some(self.volatile.values()) } else { None };
        known.into_iter().chain(others.into_iter().flatten())
    }

    /// Makes the entry of a record. A row of a snapshot does not contain when it was changed.
    fn change(
        &self,
        record: &ScannedRecord<'_>,
        topic: TopicNumber,
        key: Option<&[u8]>,
        said: Option<&Read<'_>>,
    ) -> Change {
        let is_volatile = |name| self.volatile_of(record.topic()).any(|names| names.contains(&name));
        let fields = said.and_then(|said| said.digests(is_volatile));
        let state = match (record.value(), said, fields) {
            (None, ..) | (Some(_), Some(_), None) => State::Gone,
            (Some(_), None, _) => State::Unreadable,
            (_, _, Some(fields)) => State::There(fields),
        };
        let none = Fields::default();
        let fields = if let State::There(fields) = &state { fields } else { &none };
        let key = key.map(key_payload);
        let of_stream = said.filter(|said| said.op.as_deref() != Some("r"));
        Change {
            identity: identity(topic, key, fields),
            topic,
            partition: record.partition(),
            offset: record.offset(),
            keyed: key.is_some(),
            visibility: self.visibility(record, said),
            lsn: of_stream.and_then(|said| said.lsn).filter(|_| key.is_some()),
            event: of_stream.and_then(|said| event(said, record)),
            state,
        }
    }

    /// Returns the visibility of a record. A tombstone has no position of its own.
    fn visibility(&self, record: &ScannedRecord<'_>, said: Option<&Read<'_>>) -> Visibility {
        let (xid, lsn) = said.map_or((None, None), |said| (said.xid, said.lsn));
        self.snapshot.visibility(xid, lsn, record.created_ms())
    }

    /// Records a truncate, which removes the rows of all keys.
    fn take_truncate(&mut self, topic: TopicNumber, said: &Read<'_>) {
        if self.snapshot.visibility(said.xid, said.lsn, None) == Visibility::Seen {
            let at = self.truncated.entry(topic).or_default();
            *at = said.lsn.unwrap_or_default().max(*at);
        }
    }
}

/// Identifies the change itself, by its position; without one, by its digest.
fn event(said: &Read<'_>, record: &ScannedRecord<'_>) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    match said.lsn {
        Some(lsn) => (lsn, said.xid, &said.op).hash(&mut hasher),
        None => record.headers().find(|header| header.name == DIGEST_HEADER)?.value?.hash(&mut hasher),
    }
    Some(hasher.finish())
}

impl Finder for ChangeFinder {
    type Found = Change;

    fn find(
        &mut self,
        record: &ScannedRecord<'_>,
        topic: TopicNumber,
        decoder: &mut RecordDecoder,
    ) -> Result<Option<Change>, VerifyError> {
        let key = record.key().map(|key| decoder.text(Side::Key, key)).transpose()?;
        let value = record.value().map(|value| decoder.text(Side::Value, value)).transpose()?;
        let said = value.as_deref().and_then(read);
        if let Some(said) = &said {
            self.with_lsn = self.with_lsn.saturating_add(u64::from(said.lsn.is_some()));
            if said.op.as_deref() == Some("t") {
                self.take_truncate(topic, said);
                return Ok(None);
            }
        }
        Ok(Some(self.change(record, topic, key.as_deref(), said.as_ref())))
    }
}
