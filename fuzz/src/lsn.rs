use pg_replication::wal::Lsn;

pub fn lsn(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(lsn) = text.parse::<Lsn>() {
        assert_eq!(lsn.to_string().parse(), Ok(lsn));
    }
}
