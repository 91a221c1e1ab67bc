//! Visibility of records' changes in the rows that were read: while they are read, and after, tables continue
//! to change.

use crate::wal::{Lsn, Xid};

/// Snapshot of the transaction that reads the rows.
#[derive(Debug, Clone)]
pub(crate) struct ReadSnapshot {
    /// The first transaction that had not begun.
    pub next: Xid,
    /// Transactions that had begun and not ended.
    pub open: Vec<Xid>,
    /// End of the WAL before.
    pub before: Lsn,
    /// End of the WAL afterwards.
    pub after: Lsn,
    /// Time of reading, in milliseconds since 1970.
    pub at_ms: i64,
}

/// Visibility of a record's change in the rows that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visibility {
    /// Visible.
    Seen,
    /// Not known.
    Unknown,
    /// Not visible: the change came later.
    Unseen,
}

impl ReadSnapshot {
    /// Returns the visibility of a record with its transaction, its position in the WAL or neither, written
    /// then.
    #[must_use]
    pub(crate) fn visibility(
        &self,
        xid: Option<u32>,
        lsn: Option<u64>,
        written_ms: Option<i64>,
    ) -> Visibility {
        match (xid.map(Xid), lsn.map(Lsn::new)) {
            (Some(xid), Some(_)) if self.open.contains(&xid) => Visibility::Unseen,
            // An old record may have the number of a transaction that begins again.
            (Some(xid), Some(lsn)) if lsn >= self.before && !self.had_begun(xid) => Visibility::Unseen,
            (Some(_), Some(_)) => Visibility::Seen,
            (_, Some(lsn)) if lsn < self.before => Visibility::Seen,
            (_, Some(lsn)) if lsn > self.after => Visibility::Unseen,
            (_, None) if written_ms.is_some_and(|written| written < self.at_ms) => Visibility::Seen,
            _ => Visibility::Unknown,
        }
    }

    /// Returns whether a transaction had begun. Transactions are counted in a circle.
    const fn had_begun(&self, xid: Xid) -> bool {
        xid.0.wrapping_sub(self.next.0) > u32::MAX / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_later_is_known_by_its_transaction() {
        let snapshot = ReadSnapshot {
            next: Xid(5),
            open: vec![Xid(u32::MAX), Xid(3)],
            before: Lsn::new(100),
            after: Lsn::new(200),
            at_ms: 1_000,
        };
        let cases = [
            ((Some(4), Some(50), None), Visibility::Seen),
            ((Some(4), Some(150), None), Visibility::Seen),
            ((Some(4), Some(300), None), Visibility::Seen),
            ((Some(3), Some(50), None), Visibility::Unseen),
            ((Some(u32::MAX), Some(50), None), Visibility::Unseen),
            ((Some(u32::MAX - 1), Some(150), None), Visibility::Seen),
            ((Some(5), Some(100), None), Visibility::Unseen),
            ((Some(7), Some(150), None), Visibility::Unseen),
            ((Some(7), Some(99), None), Visibility::Seen),
            ((None, Some(99), None), Visibility::Seen),
            ((None, Some(100), Some(1)), Visibility::Unknown),
            ((None, Some(201), Some(1)), Visibility::Unseen),
            ((None, None, Some(999)), Visibility::Seen),
            ((None, None, Some(1_000)), Visibility::Unknown),
            ((Some(7), None, None), Visibility::Unknown),
        ];
        for ((xid, lsn, written), expected) in cases {
            assert_eq!(snapshot.visibility(xid, lsn, written), expected, "{xid:?} {lsn:?} {written:?}");
        }
    }
}
