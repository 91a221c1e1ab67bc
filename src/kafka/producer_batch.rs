use crate::ack::Ticket;
use crate::connect::record::{Header, ProducerRecord};

/// How much a batch takes before the next one begins: so that librdkafka makes one request of it, `batch.size` being
/// 1,000,000 bytes of records as they are encoded.
const BYTES_MAX: usize = 900_000;
/// How many records: librdkafka's `batch.num.messages`.
const RECORDS_MAX: usize = 10_000;
/// A batch with more space than this is not used again.
const KEEP_BYTES_MAX: usize = 2 * BYTES_MAX;
/// What the encoding of a record or a header takes beside its bytes, at the most: lengths, offset and timestamp.
const RECORD_OVERHEAD: usize = 40;
const HEADER_OVERHEAD: usize = 10;

/// Records of one partition that go to the producer together. They are copied: what they borrowed from goes on.
#[derive(Debug, Default)]
pub(super) struct ProducerBatch {
    records: Vec<Batched>,
    /// Their headers, one record's behind the other's.
    headers: Vec<BatchedHeader>,
    /// Keys, values, values of headers and positions, in the order in which they are taken out.
    bytes: Vec<u8>,
    names: String,
    weight: usize,
}

/// The lengths of a record's parts.
#[derive(Debug)]
struct Batched {
    ticket: Ticket,
    timestamp_ms: i64,
    key: Option<usize>,
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
    /// Whether it is to take no more.
    pub(super) fn is_full(&self) -> bool {
        let records = self.records.len();
        let overhead = records
            .saturating_mul(RECORD_OVERHEAD)
            .saturating_add(self.headers.len().saturating_mul(HEADER_OVERHEAD));
        let bytes = self.bytes.len().saturating_add(self.names.len()).saturating_add(overhead);
        records >= RECORDS_MAX || bytes >= BYTES_MAX
    }

    pub(super) const fn len(&self) -> usize {
        self.records.len()
    }

    /// The weight of its records in the window.
    pub(super) const fn weight(&self) -> usize {
        self.weight
    }

    pub(super) fn push(&mut self, record: &ProducerRecord<'_>, ticket: Ticket) {
        self.weight = self.weight.saturating_add(record.weight());
        let key = self.keep(record.key);
        let value = self.keep(record.value);
        for header in record.headers {
            self.names.push_str(header.name);
            let value = self.keep(header.value);
            self.headers.push(BatchedHeader { name: header.name.len(), value });
        }
        let position = self.keep(record.position);
        let (timestamp_ms, headers) = (record.timestamp_ms, record.headers.len());
        self.records.push(Batched { ticket, timestamp_ms, key, value, headers, position });
    }

    fn keep(&mut self, bytes: Option<&[u8]>) -> Option<usize> {
        self.bytes.extend_from_slice(bytes?);
        bytes.map(<[u8]>::len)
    }

    /// Gives its records out, in their order.
    pub(super) fn each<E>(
        &self,
        topic: &str,
        partition: i32,
        mut take: impl FnMut(&ProducerRecord<'_>, Ticket) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut bytes, mut names) = (self.bytes.as_slice(), self.names.as_str());
        let mut lengths = self.headers.iter();
        let mut headers = Vec::new();
        for record in &self.records {
            let (key, value) = (cut(&mut bytes, record.key), cut(&mut bytes, record.value));
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

    /// Whether its space is: not when a large row has been in it.
    pub(super) const fn is_worth_keeping(&self) -> bool {
        self.bytes.capacity() <= KEEP_BYTES_MAX
    }

    /// Empties it, and keeps its space.
    pub(super) fn clear(&mut self) {
        let Self { records, headers, bytes, names, weight } = self;
        records.clear();
        headers.clear();
        bytes.clear();
        names.clear();
        *weight = 0;
    }
}

/// The next so many bytes.
fn cut<'b>(bytes: &mut &'b [u8], length: Option<usize>) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(length?)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Bytes = Option<Vec<u8>>;
    /// Key, value, headers, position.
    type Parts = (Bytes, Bytes, Vec<(String, Bytes)>, Bytes);

    fn bytes() -> impl Strategy<Value = Bytes> {
        prop::option::of(prop::collection::vec(any::<u8>(), 0..5))
    }

    fn parts() -> impl Strategy<Value = Parts> {
        (bytes(), bytes(), prop::collection::vec((".{0,3}", bytes()), 0..3), bytes())
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
            let weight: usize = records.iter().map(|(key, value, ..)| of(key) + of(value)).sum();
            prop_assert_eq!(batch.weight(), weight);
            batch.clear();
            fill(&mut batch, &others);
            prop_assert_eq!(taken_out(&batch), others);
        }
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
