//! Records with headers whose names are any bytes: brokers store them, and rdkafka does not write them.

use std::io::{Read, Write};
use std::net::TcpStream;

/// Produces one record to partition 0 by version 7 of the request `Produce`.
pub(crate) fn produce(broker: &str, topic: &str, headers: &[(&[u8], &[u8])]) {
    let batch = batch(&record(headers));
    let mut request = Vec::new();
    // Produce, its version, a correlation id, no client id; no transaction, all replicas, 10 s.
    request.extend([0, 0, 0, 7, 0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0x27, 0x10]);
    request.extend(1_i32.to_be_bytes());
    request.extend(i16::try_from(topic.len()).unwrap().to_be_bytes());
    request.extend(topic.as_bytes());
    request.extend(1_i32.to_be_bytes());
    request.extend(0_i32.to_be_bytes());
    request.extend(length(&batch));
    request.extend(batch);
    let mut stream = TcpStream::connect(broker).unwrap();
    stream.write_all(&length(&request)).unwrap();
    stream.write_all(&request).unwrap();
    let mut size = [0; 4];
    stream.read_exact(&mut size).unwrap();
    let mut answer = vec![0; usize::try_from(i32::from_be_bytes(size)).unwrap()];
    stream.read_exact(&mut answer).unwrap();
    // Correlation id, number of topics, name, number of partitions, partition; then the error.
    let error = &answer[4 + 4 + 2 + topic.len() + 4 + 4..][..2];
    assert_eq!(error, [0, 0]);
}

fn length(bytes: &[u8]) -> [u8; 4] {
    i32::try_from(bytes.len()).unwrap().to_be_bytes()
}

fn record(headers: &[(&[u8], &[u8])]) -> Vec<u8> {
    // No attributes, no differences of timestamp and offset, no key, an empty value.
    let mut record = vec![0, 0, 0];
    record.extend(varint(-1));
    record.extend(varint(0));
    record.extend(varint(headers.len().try_into().unwrap()));
    for part in headers.iter().flat_map(|(name, value)| [name, value]) {
        record.extend(varint(part.len().try_into().unwrap()));
        record.extend(*part);
    }
    [varint(record.len().try_into().unwrap()), record].concat()
}

/// Returns a batch of this record, in version 2 of the format.
fn batch(record: &[u8]) -> Vec<u8> {
    let mut checked = vec![0; 2 + 4];
    checked.extend(1_700_000_000_000_i64.to_be_bytes());
    checked.extend(1_700_000_000_000_i64.to_be_bytes());
    // No id, epoch and sequence number of a producer.
    checked.extend([0xFF; 8 + 2 + 4]);
    checked.extend(1_i32.to_be_bytes());
    checked.extend(record);
    let mut rest = vec![0, 0, 0, 0, 2];
    rest.extend(crc32c(&checked).to_be_bytes());
    rest.extend(checked);
    [&[0; 8][..], &length(&rest), &rest].concat()
}

fn varint(number: i32) -> Vec<u8> {
    let mut left = ((number << 1) ^ (number >> 31)).cast_unsigned();
    let mut bytes = Vec::new();
    while left > 0x7F {
        bytes.push(u8::try_from(left & 0x7F).unwrap() | 0x80);
        left >>= 7;
    }
    bytes.push(u8::try_from(left).unwrap());
    bytes
}

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum: u32, _| {
            (sum >> 1) ^ if sum & 1 == 1 { 0x82F6_3B78 } else { 0 }
        })
    })
}
