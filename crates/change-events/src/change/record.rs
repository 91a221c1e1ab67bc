//! Records of a change.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::digest::ChangeDigest;
use crate::outbox::RouteError;
use connect_data::converter::{ConvertError, Converter, Converters, Destination, Encoded};
use connect_data::record::{DIGEST_HEADER, Header, ProducerRecord};
use connect_data::source_record::{Datum, DatumHeader, SourceRecord};

/// Number of headers that fit without an allocation: four of Debezium's context, one of a changed key, and
/// one of the digest.
const INLINE_HEADERS: usize = 6;

/// Number of records of a change that fit without an allocation.
const INLINE_RECORDS: usize = 3;

/// The records of a change, in their order. Their parts are bytes, in the scratch space or borrowed from
/// their source.
#[derive(Debug, Default)]
pub struct ChangeRecords<'a> {
    records: SmallVec<[Converted<'a>; INLINE_RECORDS]>,
    /// The number of events, without tombstones.
    pub(super) events: i64,
    /// The number of events of the table that was added last.
    pub(super) events_of_table: i64,
    /// True if an update was skipped because no captured column has changed (`skip.messages.without.change`).
    is_unchanged: bool,
    /// Errors of the skipped records.
    refused: Vec<RouteError>,
    /// The digest that identifies the records, if it is enabled.
    digest: Option<ChangeDigest>,
}

/// A record in bytes.
#[derive(Debug)]
pub(super) struct Converted<'a> {
    pub(super) topic: Cow<'a, str>,
    pub(super) partition: Option<i32>,
    pub(super) timestamp_ms: i64,
    pub(super) key: Encoded<'a>,
    pub(super) value: Encoded<'a>,
    pub(super) headers: SmallVec<[(Cow<'a, str>, Encoded<'a>); INLINE_HEADERS]>,
}

/// A part of a record that its converter rejects.
#[derive(Debug)]
pub(super) struct Inconvertible {
    /// The option that names the converter.
    pub(super) option: &'static str,
    pub(super) source: ConvertError,
}

impl<'a> ChangeRecords<'a> {
    /// Converts a record and appends it. A record without a timestamp gets `now_ms` (milliseconds since the
    /// Unix epoch).
    pub(super) fn push(
        &mut self,
        record: SourceRecord<'a>,
        converters: &Converters,
        into: &mut Destination<'_>,
        now_ms: i64,
    ) -> Result<(), Inconvertible> {
        let SourceRecord { topic, partition, timestamp_ms, key, value, headers } = record;
        let mut into = Destination { scratch: into.scratch, topic: &topic, schemas: into.schemas };
        let key = convert("key.converter", &converters.key, &key, &mut into)?;
        let value = convert_value(&converters.value, &value, &headers, &mut into)?;
        let mut converted = SmallVec::with_capacity(headers.len());
        for header in headers {
            let bytes = convert("header.converter", &converters.header, &header.datum, &mut into)?;
            converted.push((header.name, bytes));
        }
        let timestamp_ms = timestamp_ms.unwrap_or(now_ms);
        self.records.push(Converted { topic, partition, timestamp_ms, key, value, headers: converted });
        Ok(())
    }

    /// Stores the error of a skipped record.
    pub(super) fn refuse(&mut self, error: RouteError) {
        self.refused.push(error);
    }

    /// Removes and returns the errors of the skipped records.
    pub fn take_refused(&mut self) -> Vec<RouteError> {
        std::mem::take(&mut self.refused)
    }

    /// Appends a converted record.
    pub(super) fn add(&mut self, record: Converted<'a>) {
        self.records.push(record);
    }

    /// Sets the digest that identifies the records, which is sent as a header.
    pub const fn report_digest(&mut self, digest: ChangeDigest) {
        self.digest = Some(digest);
    }

    /// Reports whether there are no records: a transform has dropped them, or nothing of the row has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Notes that an update was skipped because no captured column has changed.
    pub(super) const fn skip_unchanged(&mut self) {
        self.is_unchanged = true;
    }

    /// Reports whether an update was skipped because no captured column has changed.
    pub const fn is_unchanged(&self) -> bool {
        self.is_unchanged
    }

    /// Returns the number of events of the table that was added last.
    pub const fn events_of_table(&self) -> i64 {
        self.events_of_table
    }

    /// Lends the records to `take`, in the producer's form. Nothing may be written to the scratch space after
    /// that.
    pub fn lend<T>(&self, scratch: &[u8], take: impl FnOnce(&[ProducerRecord<'_>]) -> T) -> T {
        let headers: SmallVec<[_; INLINE_RECORDS]> =
            self.records.iter().map(|it| it.headers(self.digest.as_ref(), scratch)).collect();
        let records: SmallVec<[_; INLINE_RECORDS]> = self
            .records
            .iter()
            .zip(&headers)
            .map(|(record, headers)| record.lent(scratch, headers))
            .collect();
        take(&records)
    }
}

impl<'a> Converted<'a> {
    /// Returns the tombstone that follows a delete.
    pub(super) fn without_value(&self) -> Self {
        let Self { topic, key, headers, .. } = self;
        let (topic, key, headers) = (topic.clone(), key.clone(), headers.clone());
        Self { topic, key, headers, value: Encoded::Null, ..*self }
    }

    fn headers<'s>(
        &'s self,
        digest: Option<&'s ChangeDigest>,
        scratch: &'s [u8],
    ) -> SmallVec<[Header<'s>; INLINE_HEADERS]> {
        let header = |(name, value): &'s (Cow<'a, str>, Encoded<'a>)| Header {
            name,
            value: value.clone().resolve(scratch),
        };
        let digest = digest.map(|digest| Header { name: DIGEST_HEADER, value: Some(digest.text()) });
        self.headers.iter().map(header).chain(digest).collect()
    }

    fn lent<'s>(&'s self, scratch: &'s [u8], headers: &'s [Header<'s>]) -> ProducerRecord<'s> {
        ProducerRecord {
            topic: &self.topic,
            partition: self.partition,
            timestamp_ms: self.timestamp_ms,
            key: self.key.clone().resolve(scratch),
            value: self.value.clone().resolve(scratch),
            headers,
            position: None,
        }
    }
}

/// Converts the value of a record.
fn convert_value<'a>(
    converter: &Converter,
    value: &Datum<'a>,
    headers: &[DatumHeader<'a>],
    into: &mut Destination<'_>,
) -> Result<Encoded<'a>, Inconvertible> {
    if value.schema.is_none() && value.value.is_null() {
        return Ok(Encoded::Null);
    }
    let converted = converter.convert_beside(value, headers, into);
    converted.map_err(|source| Inconvertible { option: "value.converter", source })
}

/// Converts a part of a record.
pub(super) fn convert<'a>(
    option: &'static str,
    converter: &Converter,
    datum: &Datum<'a>,
    into: &mut Destination<'_>,
) -> Result<Encoded<'a>, Inconvertible> {
    if datum.schema.is_none() && datum.value.is_null() {
        return Ok(Encoded::Null);
    }
    let converted = match &datum.schema {
        Some(schema) => converter.convert_shared(schema, &datum.value, into),
        None => converter.convert(None, &datum.value, into),
    };
    converted.map_err(|source| Inconvertible { option, source })
}
