#![no_main]
use libfuzzer_sys::fuzz_target;
use outboxd::internals::replication::{ReplicationMessage, decode};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(ReplicationMessage::XLogData(data)) = decode(bytes) {
        assert_eq!(bytes.len(), 25 + data.data.len());
    }
});
