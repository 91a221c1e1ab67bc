//! Copied records of one partition, in memory that is reused.

use std::ops::Range;

use crate::ack::Ticket;
use crate::connect::record::{Header, ProducerRecord};

/// Bytes after which the next batch begins, so that librdkafka makes one request of it, `batch.size` being
/// 1,000,000 bytes of encoded records.
const BYTES_MAX: usize = 900_000;
/// Number of records after which the next batch begins: librdkafka's `batch.num.messages`.
const RECORDS_MAX: usize = 10_000;
/// A batch with more space than this is not used again.
const KEEP_BYTES_MAX: usize = 2 * BYTES_MAX;
/// Most bytes that the encoding of a record or a header needs beside its contents: lengths, offset and
/// timestamp.
const RECORD_OVERHEAD: usize = 40;
const HEADER_OVERHEAD: usize = 10;

/// Less than this in common with the value before is not worth to be put together again.
const SHARED_MIN: usize = 256;
/// Number of bytes in one comparison.
const BLOCK: usize = 64;

/// Records of one partition that go to the producer together. They are copied, because the buffers that they
/// borrow from are reused.
///
/// The values of a table with their schema begin alike, for thousands of bytes. What a value has in common
/// with the last one that is kept whole is not kept again.
#[derive(Debug, Default)]
pub(in crate::kafka) struct ProducerBatch {
    records: Vec<Batched>,
    /// Their headers, record by record.
    headers: Vec<BatchedHeader>,
    /// Keys, values, values of headers and positions, in the order in which they are read.
    bytes: Vec<u8>,
    names: String,
    /// Range of the last value that is stored as a whole.
    whole: Range<usize>,
    /// Bytes of the values that are not stored themselves, being in that one.
    shared: usize,
    weight: usize,
}

/// The lengths of a record's parts.
#[derive(Debug)]
struct Batched {
    ticket: Ticket,
    timestamp_ms: i64,
    key: Option<usize>,
    /// Bytes shared with the last whole value; the rest follows.
    shared: usize,
    value: Option<usize>,
    headers: usize,
    position: Option<usize>,
}

#[derive(Debug)]
struct BatchedHeader {
    name: usize,
    value: Option<usize>,
}

impl ProducerBatch {
    /// Returns whether it must accept no more.
    pub(in crate::kafka) fn is_full(&self) -> bool {
        let records = self.records.len();
        let overhead = records
            .saturating_mul(RECORD_OVERHEAD)
            .saturating_add(self.headers.len().saturating_mul(HEADER_OVERHEAD));
        let bytes = self.bytes.len().saturating_add(self.shared).saturating_add(self.names.len());
        let bytes = bytes.saturating_add(overhead);
        records >= RECORDS_MAX || bytes >= BYTES_MAX
    }

    pub(in crate::kafka) const fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns the weight of its records in the window.
    pub(in crate::kafka) const fn weight(&self) -> usize {
        self.weight
    }

    pub(in crate::kafka) fn push(&mut self, record: &ProducerRecord<'_>, ticket: Ticket) {
        self.weight = self.weight.saturating_add(record.weight());
        let key = self.keep(record.key);
        let (shared, value) = self.keep_value(record.value);
        for header in record.headers {
            self.names.push_str(header.name);
            let value = self.keep(header.value);
            self.headers.push(BatchedHeader { name: header.name.len(), value });
        }
        let position = self.keep(record.position);
        let (timestamp_ms, headers) = (record.timestamp_ms, record.headers.len());
        self.records.push(Batched { ticket, timestamp_ms, key, shared, value, headers, position });
    }

    fn keep(&mut self, bytes: Option<&[u8]>) -> Option<usize> {
        self.bytes.extend_from_slice(bytes?);
        bytes.map(<[u8]>::len)
    }

    fn keep_value(&mut self, value: Option<&[u8]>) -> (usize, Option<usize>) {
        let Some(value) = value else { return (0, None) };
        let whole = self.bytes.get(self.whole.clone()).unwrap_or_default();
        let shared = beginning_of_both(whole, value);
        let (_, rest) = value.split_at_checked(shared).unwrap_or_default();
        let kept = self.keep(Some(rest));
        if shared == 0 {
            let end = self.bytes.len();
            self.whole = end.saturating_sub(value.len())..end;
        }
        self.shared = self.shared.saturating_add(shared);
        (shared, kept)
    }

    /// Passes its records to `take`, in their order.
    pub(in crate::kafka) fn each<E>(
        &self,
        topic: &str,
        partition: i32,
        mut take: impl FnMut(&ProducerRecord<'_>, Ticket) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut bytes, mut names) = (self.bytes.as_slice(), self.names.as_str());
        let mut lengths = self.headers.iter();
        let (mut headers, mut values) = (Vec::new(), Values::default());
        for record in &self.records {
            let (key, rest) = (cut(&mut bytes, record.key), cut(&mut bytes, record.value));
            let value = rest.map(|rest| values.value(record.shared, rest));
            headers.clear();
            for header in lengths.by_ref().take(record.headers) {
                let (name, rest) = names.split_at_checked(header.name).unwrap_or_default();
                names = rest;
                headers.push(Header { name, value: cut(&mut bytes, header.value) });
            }
            let (partition, timestamp_ms) = (Some(partition), record.timestamp_ms);
            let position = cut(&mut bytes, record.position);
            let record_again =
                ProducerRecord { topic, partition, timestamp_ms, key, value, headers: &headers, position };
            take(&record_again, record.ticket)?;
        }
        Ok(())
    }

    /// Returns whether its buffer is worth keeping: not after a large row.
    pub(in crate::kafka) const fn is_worth_keeping(&self) -> bool {
        self.bytes.capacity() <= KEEP_BYTES_MAX
    }

    /// Empties it, and retains its memory.
    pub(in crate::kafka) fn clear(&mut self) {
        let Self { records, headers, bytes, names, whole, shared, weight } = self;
        records.clear();
        headers.clear();
        bytes.clear();
        names.clear();
        *whole = 0..0;
        *shared = 0;
        *weight = 0;
    }
}

/// Puts values together again.
#[derive(Default)]
struct Values<'b> {
    /// The last whole one.
    whole: &'b [u8],
    /// The last one that was put together, and how much of it is the whole one's.
    made: Vec<u8>,
    shared: usize,
}

impl<'b> Values<'b> {
    fn value<'v>(&'v mut self, shared: usize, rest: &'b [u8]) -> &'v [u8] {
        if shared == 0 {
            (self.whole, self.shared) = (rest, 0);
            return rest;
        }
        self.made.truncate(self.shared.min(shared));
        let lacking = self.whole.get(self.made.len()..shared).unwrap_or_default();
        self.made.extend_from_slice(lacking);
        self.made.extend_from_slice(rest);
        self.shared = shared;
        &self.made
    }
}

/// Returns the length, in blocks, of the common beginning; 0 when it is not worth it.
fn beginning_of_both(whole: &[u8], value: &[u8]) -> usize {
    let blocks = whole.as_chunks::<BLOCK>().0.iter().zip(value.as_chunks::<BLOCK>().0);
    let equal = blocks.take_while(|(whole, value)| whole == value).count().saturating_mul(BLOCK);
    if equal < SHARED_MIN { 0 } else { equal }
}

/// Cuts off this number of bytes.
fn cut<'b>(bytes: &mut &'b [u8], length: Option<usize>) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(length?)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    use crate::connect::record::POSITION_HEADER;

    type Bytes = Option<Vec<u8>>;
    /// Key, value, headers, position.
    type Parts = (Bytes, Bytes, Vec<(String, Bytes)>, Bytes);

    fn bytes() -> impl Strategy<Value = Bytes> {
        prop::option::of(prop::collection::vec(any::<u8>(), 0..5))
    }

    /// Generates values, some of which begin alike, and differ somewhere, or nowhere.
    fn value() -> impl Strategy<Value = Bytes> {
        let alike = (0..4 * SHARED_MIN, 0..4 * SHARED_MIN).prop_map(|(length, place)| {
            let mut value: Vec<u8> = (0..=u8::MAX).cycle().take(length).collect();
            value.iter_mut().skip(place).take(1).for_each(|byte| *byte = byte.wrapping_add(1));
            Some(value)
        });
        prop_oneof![bytes(), alike]
    }

    fn parts() -> impl Strategy<Value = Parts> {
        (bytes(), value(), prop::collection::vec((".{0,3}", bytes()), 0..3), bytes())
    }

    fn fill(batch: &mut ProducerBatch, records: &[Parts]) {
        for (number, (key, value, headers, position)) in records.iter().enumerate() {
            let headers: Vec<_> =
                headers.iter().map(|(name, value)| Header { name, value: value.as_deref() }).collect();
            let record = ProducerRecord {
                topic: "a",
                partition: Some(3),
                timestamp_ms: i64::try_from(number).unwrap(),
                key: key.as_deref(),
                value: value.as_deref(),
                headers: &headers,
                position: position.as_deref(),
            };
            batch.push(&record, Ticket(number));
        }
    }

    fn taken_out(batch: &ProducerBatch) -> Vec<Parts> {
        let mut records = Vec::new();
        let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        let taken = batch.each("a", 3, |record, ticket| {
            assert_eq!((record.topic, record.partition, ticket), ("a", Some(3), Ticket(records.len())));
            assert_eq!(record.timestamp_ms, i64::try_from(records.len()).unwrap());
            let headers = record.headers.iter().map(|header| (header.name.to_owned(), owned(header.value)));
            let headers = headers.collect();
            records.push((owned(record.key), owned(record.value), headers, owned(record.position)));
            Ok::<_, ()>(())
        });
        assert_eq!(taken, Ok(()));
        records
    }

    proptest! {
        #[test]
        fn what_is_taken_out_is_what_came(
            records in prop::collection::vec(parts(), 0..20),
            others in prop::collection::vec(parts(), 0..20),
        ) {
            let mut batch = ProducerBatch::default();
            fill(&mut batch, &records);
            prop_assert_eq!(taken_out(&batch), &records[..]);
            prop_assert_eq!(batch.len(), records.len());
            let of = |bytes: &Bytes| bytes.as_ref().map_or(0, Vec::len);
            let position = |text: &Bytes| text.as_ref().map_or(0, |text| POSITION_HEADER.len() + text.len());
            let weight = records.iter().map(|(key, value, headers, at)| {
                let headers: usize = headers.iter().map(|(name, value)| name.len() + of(value)).sum();
                of(key) + of(value) + headers + position(at)
            });
            let weight: usize = weight.sum();
            prop_assert_eq!(batch.weight(), weight);
            batch.clear();
            fill(&mut batch, &others);
            prop_assert_eq!(taken_out(&batch), others);
        }
    }

    #[test]
    fn what_values_have_in_common_is_kept_once() {
        let record = |end: &str| (None, Some([vec![b'x'; 3_000], end.into()].concat()), Vec::new(), None);
        let records = ["1", "22", ""].map(record);
        let mut batch = ProducerBatch::default();
        fill(&mut batch, &records);
        assert!(batch.bytes.len() < 3_200, "{}", batch.bytes.len());
        assert_eq!(taken_out(&batch), records);
    }

    #[test]
    fn a_batch_is_full_by_its_records_or_its_bytes() {
        for (value, count) in
            [(vec![], RECORDS_MAX), (vec![0; BYTES_MAX / 3], 3), (vec![0; 2 * BYTES_MAX], 1)]
        {
            let mut batch = ProducerBatch::default();
            let record = (None, Some(value), Vec::new(), None);
            for _ in 0..count {
                assert!(!batch.is_full());
                fill(&mut batch, std::slice::from_ref(&record));
            }
            assert!(batch.is_full(), "{count}");
        }
    }
}
