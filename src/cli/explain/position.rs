use serde::Serialize;

use crate::wal::Lsn;

/// What the header `outboxd.position` says: `SYSTEM/COMMIT LSN/ORDINAL`, and a part where a row has several records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Position {
    pub(super) system: String,
    pub(super) commit_lsn: String,
    /// The how many-th event of its transaction, from 0.
    pub(super) event: u64,
    #[serde(skip)]
    pub(super) lsn: Lsn,
}

impl Position {
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(text).ok()?.split('/');
        let (system, lsn, event) = (parts.next()?, parts.next()?, parts.next()?);
        let lsn = Lsn::new(u64::from_str_radix(lsn, 16).ok()?);
        let event = u64::from_str_radix(event, 16).ok()?;
        Some(Self { system: system.to_owned(), commit_lsn: lsn.to_string(), event, lsn })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_header_is_read() {
        let position = Position::parse(b"7512345678901234567/00000000016B3748/0000000A/02").unwrap();
        assert_eq!((position.commit_lsn.as_str(), position.event), ("0/16B3748", 10));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            drop(Position::parse(&bytes));
        }
    }
}
