//! Rows that are proven to be sent.

use crate::wal::Lsn;

/// Number of transactions after which a row's `xmin` is ambiguous.
const XIDS: i64 = 1 << 32;

/// Horizon that separates rows before a position in the WAL from all others.
///
/// `xid` is the oldest transaction that was running when the snapshot was taken, and `lsn` the end of the WAL
/// *after* that, with what was only inserted into its buffers. Every transaction with a smaller id had ended
/// by then: it had left the list of those that run, which happens after its commit record is inserted, also
/// with `synchronous_commit=off` and for prepared transactions. So its commit lies in front of `lsn`. When
/// the slot is confirmed up to there, all its events are acknowledged.
///
/// It does not matter whether a snapshot sees a transaction: a snapshot lists no subtransactions, and
/// mistakes a savepoint's rows for committed while the transaction around them still runs. A transaction that
/// stays open holds the horizon back instead.
///
/// It is good for as long as the server does not crash: a commit that was visible and not flushed is lost
/// then, and its place in the WAL is another's. So it belongs to one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Horizon {
    /// Transaction id with its epoch, which is unique.
    pub(crate) xid: i64,
    pub(crate) lsn: Lsn,
}

impl Horizon {
    /// Returns whether everything before it is sent: the slot is confirmed up to it, and so is the position
    /// in Kafka, if one is stored. A slot that another client moved ahead is further than the position.
    pub(crate) fn is_sent(self, confirmed: Lsn, kept: Option<Lsn>) -> bool {
        confirmed >= self.lsn && kept.is_none_or(|kept| kept >= self.lsn)
    }

    /// Returns whether a row of this `xmin` is before it. `next` is the next transaction's id, with its
    /// epoch.
    #[cfg(test)]
    pub(super) const fn covers(self, xmin: u32, next: i64) -> bool {
        next - ((next - xmin as i64) & (XIDS - 1)) < self.xid
    }

    /// Returns that condition in SQL, for the rows of `alias`. A row whose `xmin` is that of an earlier epoch
    /// is mistaken for a younger one: it stays.
    pub(crate) fn condition(self, alias: &str) -> String {
        let (xid, mask) = (self.xid, XIDS - 1);
        let next = "(select pg_snapshot_xmax(pg_current_snapshot())::text::bigint)";
        format!("{next} - (({next} - {alias}.xmin::text::bigint) & {mask}) < {xid}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_compared_with_their_epoch() {
        let epoch = XIDS;
        let cases = [
            // xmin, next, horizon, covered
            (5, 10, 6, true),
            (6, 10, 6, false),
            (9, 10, 6, false),
            // Frozen and bootstrap.
            (2, 10, 6, true),
            (1, 3, 3, true),
            // The epoch has just begun: what is "greater" is older.
            (4_294_967_290, epoch + 10, epoch + 5, true),
            (7, epoch + 10, epoch + 5, false),
            (4, epoch + 10, epoch + 5, true),
            (4_294_967_290, epoch + 10, epoch - 20, false),
        ];
        for (xmin, next, xid, covered) in cases {
            let horizon = Horizon { xid, lsn: Lsn::ZERO };
            assert_eq!(horizon.covers(xmin, next), covered, "{xmin} {next} {xid}");
        }
    }

    #[test]
    fn what_lies_in_front_is_sent_when_slot_and_position_are_behind_it() {
        let horizon = Horizon { xid: 1, lsn: Lsn::new(100) };
        for (confirmed, kept, sent) in [
            (99, None, false),
            (100, None, true),
            (200, Some(99), false),
            (200, Some(100), true),
            (99, Some(200), false),
        ] {
            assert_eq!(
                horizon.is_sent(Lsn::new(confirmed), kept.map(Lsn::new)),
                sent,
                "{confirmed} {kept:?}"
            );
        }
    }
}
