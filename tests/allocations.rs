//! What a message announces is not what is allocated: only bytes that have arrived count.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use allocation_counter::measure;
use outboxd::wire::{BackendMessage, Frame};
use outboxd::{pgoutput, replication};

/// Room for an error's own text; far less than any of the announced sizes.
const BYTES_MAX: u64 = 1024;

#[test]
fn an_announcement_alone_allocates_nothing_large() {
    let pgoutput: [(&str, &[u8]); 7] = [
        ("an insert of 65535 columns", b"I\0\0\0\x01N\xFF\xFFnn"),
        ("an update of 65535 columns", b"U\0\0\0\x01K\xFF\xFFnn"),
        ("a delete of 65535 columns", b"D\0\0\0\x01O\xFF\xFFuu"),
        ("a column of 2 GiB", b"I\0\0\0\x01N\0\x01t\x7F\xFF\xFF\xFF"),
        ("a relation of 65535 columns", b"R\0\0\0\x01\0t\0d\xFF\xFF\0c\0"),
        ("a truncate of 2147483647 relations", b"T\x7F\xFF\xFF\xFF\0\0\0\0\x01"),
        ("a logical message of 2 GiB", b"M\0\0\0\0\0\0\0\0\x01\0\x7F\xFF\xFF\xFFx"),
    ];
    for (case, body) in pgoutput {
        bounded(case, || pgoutput::decode(body).is_err());
    }
    let backend: [(&str, u8, &[u8]); 3] = [
        ("a row of 65535 columns", b'D', b"\xFF\xFF\xFF\xFF\xFF\xFF"),
        ("a value of 2 GiB", b'D', b"\0\x01\x7F\xFF\xFF\xFFx"),
        ("a description of 65535 columns", b'T', b"\xFF\xFFc\0"),
    ];
    for (case, tag, body) in backend {
        bounded(case, || BackendMessage::decode(Frame { tag, body }).is_err());
    }
    bounded("a cut keepalive", || replication::decode(b"k\0\0").is_err());
}

#[test]
fn a_usual_row_is_decoded_without_an_allocation() {
    let row = b"I\0\0\0\x01N\0\x03t\0\0\0\x011nt\0\0\0\x03abc";
    let allocated = measure(|| assert!(pgoutput::decode(row).is_ok()));
    assert_eq!(allocated.bytes_total, 0);
}

fn bounded(case: &str, refused: impl FnOnce() -> bool) {
    let allocated = measure(|| assert!(refused(), "{case} was taken for complete"));
    assert!(allocated.bytes_total <= BYTES_MAX, "{case}: {} bytes", allocated.bytes_total);
}
