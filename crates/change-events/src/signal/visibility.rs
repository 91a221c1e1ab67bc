//! Transactions that a snapshot of PostgreSQL includes.

use std::collections::VecDeque;

/// Number of the stream's last transactions that are stored. A transaction with this number of later commits
/// is visible to all.
const REMEMBERED_MAX: usize = 4096;

/// A transaction's view of others (`pg_current_snapshot`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PgSnapshot {
    /// The first transaction id that it does not see.
    xmax: u32,
    /// The earlier transactions that it does not see.
    in_progress: Vec<u32>,
}

/// The last transactions of the stream.
///
/// PostgreSQL writes a commit before other transactions see it, and with synchronous replication long before.
/// So the stream may have sent a change that a later query does not see yet.
#[derive(Debug, Default)]
pub struct Recent(VecDeque<u32>);

impl PgSnapshot {
    /// Parses `xmin:xmax:xip,xip`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':').skip(1);
        let xmax = xid(parts.next()?)?;
        let listed = parts.next()?.split(',').filter(|text| !text.is_empty());
        Some(Self { xmax, in_progress: listed.map(xid).collect::<Option<_>>()? })
    }

    /// Reports whether the changes of this transaction are visible.
    pub fn sees(&self, xid: u32) -> bool {
        // Transaction ids wrap around: half of them are older.
        let is_older = xid.wrapping_sub(self.xmax) > u32::MAX / 2;
        is_older && !self.in_progress.contains(&xid)
    }
}

impl Recent {
    /// Adds a transaction of the stream.
    pub fn add(&mut self, xid: u32) {
        if self.0.len() >= REMEMBERED_MAX {
            self.0.pop_front();
        }
        self.0.push_back(xid);
    }

    /// Reports whether all of them are visible.
    pub fn are_seen_by(&self, visible: &PgSnapshot) -> bool {
        self.0.iter().all(|xid| visible.sees(*xid))
    }
}

/// Parses a transaction id and removes its epoch, as in the stream.
fn xid(text: &str) -> Option<u32> {
    let full: u64 = text.parse().ok()?;
    u32::try_from(full % (1 << 32)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_not_ended_for_others_is_not_seen() {
        let visible = PgSnapshot::parse("4294967300:4294967310:4294967302,4294967305").unwrap();
        let seen = [3, 6, 8, 9, 13, 14, 15, u32::MAX].map(|xid| visible.sees(xid));
        assert_eq!(seen, [true, false, true, false, true, false, false, true]);
        let mut recent = Recent::default();
        recent.add(5);
        assert!(recent.are_seen_by(&visible));
        recent.add(9);
        assert!(!recent.are_seen_by(&visible));
    }

    #[test]
    fn what_is_no_snapshot_is_none() {
        assert!(PgSnapshot::parse("10:20:").unwrap().sees(19));
        assert!(["", "10", "10:20", "10:x:", "10:20:z"].map(PgSnapshot::parse).iter().all(Option::is_none));
    }
}
