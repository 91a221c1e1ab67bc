use pg_replication::pgoutput::decode;

pub fn pgoutput_message(bytes: &[u8]) {
    if decode(bytes).is_ok() {
        assert!(decode(&bytes[..bytes.len() - 1]).is_err(), "complete without its last byte");
    }
}
