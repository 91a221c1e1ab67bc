//! The header `outboxd.position`.

use serde::Serialize;

use crate::wal::Lsn;

/// Contents of the header `outboxd.position`: `SYSTEM/COMMIT LSN/LLSN/NUMBER`, and a part where a row has
/// several records. An outboxd that counted the events of a transaction wrote `SYSTEM/COMMIT LSN/NUMBER`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Position {
    pub(super) system: String,
    pub(super) commit_lsn: String,
    /// LSN of the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) change_lsn: Option<String>,
    /// The how many-th of the changes with that LSN, from 0; without one, of the events of the transaction.
    pub(super) event: u64,
    #[serde(skip)]
    pub(super) lsn: Lsn,
}

impl Position {
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(text).ok()?.split('/');
        let (system, lsn, place) = (parts.next()?, Self::lsn(parts.next()?)?, parts.next()?);
        let change_lsn = place.strip_prefix('L').and_then(Self::lsn);
        let event = if change_lsn.is_some() { parts.next()? } else { place };
        let event = u64::from_str_radix(event, 16).ok()?;
        let change_lsn = change_lsn.map(|lsn| lsn.to_string());
        Some(Self { system: system.to_owned(), commit_lsn: lsn.to_string(), change_lsn, event, lsn })
    }

    /// Returns the text form.
    pub(super) fn text(&self) -> String {
        match &self.change_lsn {
            Some(change_lsn) => format!("commit {} change {change_lsn}", self.commit_lsn),
            None => format!("commit {} event {}", self.commit_lsn, self.event),
        }
    }

    fn lsn(digits: &str) -> Option<Lsn> {
        u64::from_str_radix(digits, 16).ok().map(Lsn::new)
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
        assert_eq!(position.text(), "commit 0/16B3748 event 10");
        let position =
            Position::parse(b"7512345678901234567/00000000016B3748/L00000000016B3700/0000000A/02").unwrap();
        assert_eq!((position.commit_lsn.as_str(), position.event), ("0/16B3748", 10));
        assert_eq!(position.text(), "commit 0/16B3748 change 0/16B3700");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            drop(Position::parse(&bytes));
        }
    }
}
