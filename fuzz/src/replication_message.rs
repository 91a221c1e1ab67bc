use pg_replication::replication::{ReplicationMessage, decode};

pub fn replication_message(bytes: &[u8]) {
    if let Ok(ReplicationMessage::XLogData(data)) = decode(bytes) {
        assert_eq!(bytes.len(), 25 + data.data.len());
    }
}
