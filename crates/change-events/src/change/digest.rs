//! Hashes by which a change is recognised.

use sha2::{Digest as _, Sha256};

use super::row_change::{Row, RowChange};
use pg_replication::pgoutput::{Begin, ColumnValue, LogicalMessage};
use pg_replication::wal::{PgTimestamp, Xid};

const HEXADECIMAL: &[u8; 16] = b"0123456789abcdef";

/// Bytes of the hash that the digest shows.
const SHOWN_BYTES: usize = 8;

/// Hash of a change's content as the server sent it: the transaction, the tables and the values of the rows.
/// It is the same at each reading of the change, and does not depend on the records that the change becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeDigest([u8; SHOWN_BYTES * 2]);

impl ChangeDigest {
    /// Computes the digest of a change of these tables. A row of a snapshot has no transaction.
    pub fn of<'t>(
        tables: impl Iterator<Item = &'t str>,
        change: RowChange<'_, '_>,
        transaction: Option<&Begin>,
    ) -> Self {
        let mut hash = Sha256::new();
        if let Some(begin) = transaction {
            hash.update(begin.xid.0.to_be_bytes());
            hash.update(begin.commit_time.0.to_be_bytes());
        }
        for table in tables {
            add(&mut hash, b't', table.as_bytes());
        }
        match change {
            RowChange::Insert(new) => add_row(&mut hash, b'I', new),
            RowChange::Update(old, new) => {
                if let Some(old) = old {
                    add_row(&mut hash, b'O', old.columns());
                }
                add_row(&mut hash, b'U', new);
            }
            RowChange::Delete(old) => add_row(&mut hash, b'D', old.columns()),
            RowChange::Truncate => hash.update(b"T"),
        }
        Self::shown(hash)
    }

    fn shown(hash: Sha256) -> Self {
        let hash = hash.finalize();
        let digits = hash.iter().flat_map(|byte| [byte >> 4, byte & 0xF]);
        let mut text = [0; SHOWN_BYTES * 2];
        for (place, digit) in text.iter_mut().zip(digits) {
            *place = HEXADECIMAL.get(usize::from(digit)).copied().unwrap_or_default();
        }
        Self(text)
    }

    /// Computes the digest of a logical message. A message outside a transaction is identified by its LSN.
    pub(super) fn of_message(message: &LogicalMessage<'_>, transaction: Option<(Xid, PgTimestamp)>) -> Self {
        let mut hash = Sha256::new();
        match transaction {
            Some((xid, commit_time)) => {
                hash.update(xid.0.to_be_bytes());
                hash.update(commit_time.0.to_be_bytes());
            }
            None => hash.update(message.lsn.get().to_be_bytes()),
        }
        add(&mut hash, b'm', message.prefix.as_bytes());
        add(&mut hash, b'c', message.content);
        Self::shown(hash)
    }

    /// Returns the hexadecimal digits, as a header has them.
    pub(super) const fn text(&self) -> &[u8] {
        &self.0
    }
}

fn add_row(hash: &mut Sha256, kind: u8, row: Row<'_, '_>) {
    hash.update([kind]);
    for value in row {
        match value {
            ColumnValue::Null => hash.update(b"n"),
            ColumnValue::UnchangedToast => hash.update(b"u"),
            ColumnValue::Text(bytes) => add(hash, b't', bytes),
            ColumnValue::Binary(bytes) => add(hash, b'b', bytes),
        }
    }
}

/// Adds a part with its kind and its length, so that the boundaries of the parts are unambiguous.
fn add(hash: &mut Sha256, kind: u8, bytes: &[u8]) {
    hash.update([kind]);
    hash.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
    hash.update(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use pg_replication::pgoutput::{OldTuple, Tuple};
    use pg_replication::wal::{Lsn, PgTimestamp, Xid};

    fn row(values: &[Option<&'static str>]) -> Tuple<'static> {
        let value = |text: &Option<&'static str>| {
            text.map_or(ColumnValue::Null, |text| ColumnValue::Text(text.as_bytes()))
        };
        values.iter().map(value).collect()
    }

    #[test]
    fn changes_that_differ_in_anything_have_other_digests() {
        let begin = |xid, time| Begin { final_lsn: Lsn::ZERO, commit_time: PgTimestamp(time), xid: Xid(xid) };
        let (a, b) = (row(&[Some("1"), Some("23")]), row(&[Some("12"), Some("3")]));
        let (null, empty) = (row(&[None]), row(&[Some("")]));
        let old = OldTuple::Full(a.clone());
        let all = [
            ("t", RowChange::Insert(a.columns()), None),
            ("t", RowChange::Insert(a.columns()), Some(begin(1, 1))),
            ("t", RowChange::Insert(a.columns()), Some(begin(2, 1))),
            ("t", RowChange::Insert(a.columns()), Some(begin(1, 2))),
            ("u", RowChange::Insert(a.columns()), None),
            ("t", RowChange::Insert(b.columns()), None),
            ("t", RowChange::Insert(null.columns()), None),
            ("t", RowChange::Insert(empty.columns()), None),
            ("t", RowChange::Update(None, a.columns()), None),
            ("t", RowChange::Update(Some((&old).into()), a.columns()), None),
            ("t", RowChange::Delete((&old).into()), None),
            ("t", RowChange::Truncate, None),
        ];
        let digest = |(table, change, begin): &(&'static str, RowChange<'_, '_>, Option<Begin>)| {
            let digest = ChangeDigest::of([*table].into_iter(), *change, begin.as_ref());
            String::from_utf8(digest.text().to_vec()).unwrap()
        };
        let mut digests: Vec<_> = all.iter().map(digest).collect();
        assert_eq!(digests, all.iter().map(digest).collect::<Vec<_>>());
        assert!(digests.iter().all(|digest| digest.len() == 16));
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), all.len());
    }
}
