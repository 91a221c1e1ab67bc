//! Kafka's CreateAcls and DeleteAcls requests, which librdkafka's Rust wrapper has not got, nor the broker's jars as a
//! program.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::wait::DEADLINE;

/// An operation, by its number in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Read = 3,
    Write = 4,
    Create = 5,
    Describe = 8,
}

/// Type of the resource of an ACL, by its number in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    Topic = 2,
    TransactionalId = 5,
}

const CREATE_ACLS: i16 = 30;
const DELETE_ACLS: i16 = 31;
const VERSION: i16 = 1;
const PREFIXED: u8 = 4;
const ALLOW: u8 = 3;

/// Allows the user this on everything that begins with the prefix.
pub(super) fn allow(
    broker: &str,
    user: &str,
    (resource, prefix): (Resource, &str),
    operations: &[Operation],
) {
    let mut request = begin(CREATE_ACLS, operations.len());
    for operation in operations {
        request.push(resource as u8);
        text(&mut request, prefix);
        request.push(PREFIXED);
        text(&mut request, &format!("User:{user}"));
        text(&mut request, "*");
        request.extend([*operation as u8, ALLOW]);
    }
    let answer = ask(broker, &request);
    // Correlation, throttle time, count; then of each the error code and an empty message.
    let results: Vec<_> = answer[12..].chunks(4).collect();
    assert_eq!(results, vec![[0; 4]; operations.len()], "{answer:?}");
}

/// Takes away what [`allow`] has given of one operation.
pub(super) fn revoke(broker: &str, user: &str, (resource, prefix): (Resource, &str), operation: Operation) {
    let mut request = begin(DELETE_ACLS, 1);
    request.push(resource as u8);
    text(&mut request, prefix);
    request.push(PREFIXED);
    text(&mut request, &format!("User:{user}"));
    text(&mut request, "*");
    request.extend([operation as u8, ALLOW]);
    let answer = ask(broker, &request);
    // Correlation, throttle time, count; the error code, an empty message, and how many were taken away.
    assert_eq!(answer[12..20], [0, 0, 255, 255, 0, 0, 0, 1], "{answer:?}");
}

/// Returns the beginning of a request about `count` ACLs.
fn begin(key: i16, count: usize) -> Vec<u8> {
    let mut request = [key.to_be_bytes(), VERSION.to_be_bytes()].concat();
    request.extend(7_i32.to_be_bytes());
    text(&mut request, "tests");
    request.extend(i32::try_from(count).unwrap().to_be_bytes());
    request
}

fn ask(broker: &str, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(broker).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(&i32::try_from(request.len()).unwrap().to_be_bytes()).unwrap();
    stream.write_all(request).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut answer = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
    stream.read_exact(&mut answer).unwrap();
    answer
}

fn text(request: &mut Vec<u8>, text: &str) {
    request.extend(i16::try_from(text.len()).unwrap().to_be_bytes());
    request.extend(text.as_bytes());
}
