//! Rows that a connector had sent when it stored its offset.

use super::{MessageType, SourceOffset};
use pg_replication::pgoutput::Begin;
use pg_replication::wal::{Lsn, PgTimestamp};

/// Maximum time by which a transaction that is older in the WAL may have a later commit time than the stored offset's, in
/// microseconds. The time is taken before the commit record is written, so two sessions can overtake each other in between.
const DISORDER_MAX_US: i64 = 1_000_000;

/// Rows of the stream that a connector had sent when it stored its offset.
///
/// PostgreSQL sends transactions in commit order. All transactions that committed before `lsn_commit` were sent. Of the
/// first transaction behind it, the offset's own, the rows before `lsn_proc` were sent, and the first row at it. Several
/// rows can share an LSN (those of a COPY), and only Debezium 3.7 and later store the number of them that were sent.
///
/// A row counts as sent only if its transaction committed no later than the offset's own. An offset of a lost history (a
/// backup was restored, or a standby with less WAL was promoted) therefore skips nothing: the rows of the new history are
/// committed later.
#[derive(Debug, Clone)]
pub struct SentBefore {
    /// Position before which all commit records belong to transactions that were sent.
    bound: Lsn,
    /// Latest commit time that a sent transaction can have.
    until: PgTimestamp,
    part: Option<Part>,
    current: Current,
}

/// Transaction that was sent in part.
#[derive(Debug, Clone, Copy)]
struct Part {
    tx_id: u64,
    lsn: Lsn,
    /// Number of rows at `lsn` that were sent.
    rows_at_lsn: u64,
}

/// Sent part of the open transaction.
#[derive(Debug, Clone, Copy)]
enum Current {
    /// All of it was sent.
    Whole,
    /// The rows before `Part::lsn` were sent, and `Part::rows_at_lsn` of the rows at it.
    Part(Part),
    /// Nothing of it was sent, nor of any later transaction.
    New,
}

impl SentBefore {
    /// Reads an offset. Returns none when it has no commit time, or no position in the stream.
    #[must_use]
    pub fn new(offset: &SourceOffset) -> Option<Self> {
        let PgTimestamp(committed_at) = offset.committed_at?;
        let until = PgTimestamp(committed_at.saturating_add(DISORDER_MAX_US));
        let commit = match offset.message_type {
            Some(MessageType::Commit) => offset.lsn_commit.max(offset.lsn_proc),
            _ => offset.lsn_commit,
        };
        let part = Part::of(offset);
        let bound = commit.unwrap_or_default();
        (commit.is_some() || part.is_some()).then_some(Self { bound, until, part, current: Current::Whole })
    }

    /// Begins a transaction.
    pub fn begin(&mut self, begin: &Begin) {
        let in_time = begin.commit_time <= self.until;
        self.current = match self.part {
            _ if self.is_over() || !in_time => Current::New,
            _ if begin.final_lsn < self.bound => Current::Whole,
            Some(part) if part.is_of(begin) => Current::Part(part),
            _ => Current::New,
        };
    }

    /// Returns whether the next row of the open transaction, whose WAL record is at `lsn`, was sent.
    #[must_use]
    pub fn has_row(&self, lsn: Lsn) -> bool {
        match &self.current {
            Current::Whole => true,
            Current::New => false,
            Current::Part(part) => lsn < part.lsn || lsn == part.lsn && part.rows_at_lsn > 0,
        }
    }

    /// Counts that row.
    pub fn pass_row(&mut self, lsn: Lsn) {
        if let Current::Part(part) = &mut self.current
            && lsn == part.lsn
        {
            part.rows_at_lsn = part.rows_at_lsn.saturating_sub(1);
        }
    }

    /// Ends the open transaction.
    pub const fn commit(&mut self) {
        if let Current::Part(_) = self.current {
            self.current = Current::New;
        }
    }

    /// Reports whether no further row of the stream was sent.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.current, Current::New)
    }
}

impl Part {
    fn of(offset: &SourceOffset) -> Option<Self> {
        let lsn = offset.lsn_proc?;
        let rows_at_lsn = match offset.message_type {
            Some(MessageType::Begin | MessageType::Commit) => return None,
            Some(MessageType::Change) if offset.lsn == offset.lsn_proc => {
                offset.rows_at_lsn.unwrap_or(1).max(1)
            }
            Some(MessageType::Change) => 1,
            // It may have been a logical message, or a BEGIN, which has the LSN of the row behind it.
            Some(MessageType::Other) | None => 0,
        };
        Some(Self { tx_id: offset.tx_id?, lsn, rows_at_lsn })
    }

    /// Reports whether the offset is of this transaction. A row's record lies before its transaction's commit record. (If
    /// another plugin wrote the offset, its rows may have the LSN of their commit, which does not show which of them were
    /// sent.)
    fn is_of(&self, begin: &Begin) -> bool {
        u64::from(begin.xid.0) == self.tx_id && self.lsn < begin.final_lsn
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use pg_replication::wal::Xid;

    /// xid, commit LSN, commit time, LSNs of the rows.
    type Transaction = (u32, u64, i64, &'static [u64]);

    /// In commit order. The rows of 1 and 2 are interleaved; those of 3 are a COPY's, and its first is directly behind the
    /// commit of 2, as in PostgreSQL 17 and 18.
    const STREAM: [Transaction; 4] = [
        (2, 180, 10, &[110, 150]),
        (1, 200, 20, &[100, 120, 190]),
        (3, 300, 30, &[208, 208, 208, 208, 216]),
        (4, 400, 40, &[320]),
    ];

    fn offset(json: &str) -> SourceOffset {
        let time = |us: i64| format!(",\"ts_usec\":{}}}", PgTimestamp(us * 10_000_000).unix_us());
        let (json, us) = json.rsplit_once('@').unwrap();
        SourceOffset::parse(format!("{{{json}{}", time(us.parse().unwrap())).as_bytes()).unwrap()
    }

    /// Returns the rows that are sent, as `xid.ordinal`.
    fn sent(offset: &SourceOffset, stream: &[Transaction]) -> Vec<String> {
        let mut before = SentBefore::new(offset);
        let mut rows = Vec::new();
        for (xid, commit, time, lsns) in stream {
            let begin = Begin {
                final_lsn: Lsn::new(*commit),
                commit_time: PgTimestamp(time * 10_000_000),
                xid: Xid(*xid),
            };
            if let Some(before) = &mut before {
                before.begin(&begin);
            }
            for (ordinal, lsn) in lsns.iter().enumerate() {
                let lsn = Lsn::new(*lsn);
                if !before.as_ref().is_some_and(|before| before.has_row(lsn)) {
                    rows.push(format!("{xid}.{ordinal}"));
                }
                before.iter_mut().for_each(|before| before.pass_row(lsn));
            }
            if let Some(before) = &mut before {
                before.commit();
            }
        }
        rows
    }

    #[test]
    fn what_was_sent_is_skipped_and_no_more() {
        let all = "2.0 2.1 1.0 1.1 1.2 3.0 3.1 3.2 3.3 3.4 4.0";
        let cases = [
            // Debezium's usual one: the last row of a transaction.
            (
                r#""lsn_proc":190,"lsn":190,"messageType":"INSERT","lsn_commit":188,"txId":1@20"#,
                "3.0 3.1 3.2 3.3 3.4 4.0",
            ),
            // In the middle of one, whose rows lie before those of the last.
            (
                r#""lsn_proc":100,"lsn":100,"messageType":"INSERT","lsn_commit":188,"txId":1@20"#,
                "1.1 1.2 3.0 3.1 3.2 3.3 3.4 4.0",
            ),
            // In the first transaction that was ever seen.
            (
                r#""lsn_proc":110,"lsn":110,"messageType":"INSERT","txId":2@10"#,
                "2.1 1.0 1.1 1.2 3.0 3.1 3.2 3.3 3.4 4.0",
            ),
            // A heartbeat behind a commit, whose LSN the next transaction's first row has.
            (
                r#""lsn_proc":208,"lsn":208,"messageType":"COMMIT","lsn_commit":208,"txId":1@20"#,
                "3.0 3.1 3.2 3.3 3.4 4.0",
            ),
            // END of the transaction's metadata.
            (
                r#""lsn_proc":208,"lsn":208,"messageType":"COMMIT","lsn_commit":188,"txId":1@20"#,
                "3.0 3.1 3.2 3.3 3.4 4.0",
            ),
            // BEGIN, at the LSN of the row behind it.
            (
                r#""lsn_proc":100,"lsn":100,"messageType":"BEGIN","lsn_commit":188,"txId":1@20"#,
                "1.0 1.1 1.2 3.0 3.1 3.2 3.3 3.4 4.0",
            ),
            // A COPY: without the count only the first row at the LSN is known to have been sent.
            (
                r#""lsn_proc":208,"lsn":208,"messageType":"INSERT","lsn_commit":208,"txId":3@30"#,
                "3.1 3.2 3.3 3.4 4.0",
            ),
            (
                r#""lsn_proc":208,"lsn":208,"messageType":"INSERT","lsn_commit":208,"txId":3,"lsn_events_processed":3@30"#,
                "3.3 3.4 4.0",
            ),
            (
                r#""lsn_proc":208,"lsn":208,"messageType":"INSERT","lsn_commit":208,"txId":3,"lsn_events_processed":9@30"#,
                "3.4 4.0",
            ),
            // A very old version does not store whether it was a row.
            (r#""lsn_proc":120,"lsn":120,"lsn_commit":188,"txId":1@20"#, "1.1 1.2 3.0 3.1 3.2 3.3 3.4 4.0"),
            // The first remaining transaction is another one: nothing of it is known.
            (
                r#""lsn_proc":100,"lsn":100,"messageType":"INSERT","lsn_commit":188,"txId":9@20"#,
                "1.0 1.1 1.2 3.0 3.1 3.2 3.3 3.4 4.0",
            ),
            // Everything at the commit's own LSN, as wal2json has it.
            (
                r#""lsn_proc":308,"lsn":308,"messageType":"INSERT","lsn_commit":208,"txId":3@30"#,
                "3.0 3.1 3.2 3.3 3.4 4.0",
            ),
            // Before the first streamed row, and a snapshot's.
            (r#""lsn":150,"txId":2@10"#, all),
            (r#""lsn":150,"txId":2,"snapshot":"INITIAL","snapshot_completed":true@10"#, all),
            // Far behind the slot, and far ahead in a history that ended before any of this was committed.
            (r#""lsn_proc":90,"lsn":90,"messageType":"INSERT","lsn_commit":80,"txId":3@5"#, all),
            (r#""lsn_proc":990,"lsn":990,"messageType":"COMMIT","lsn_commit":990,"txId":3@5"#, all),
        ];
        for (json, expected) in cases {
            assert_eq!(sent(&offset(json), &STREAM).join(" "), expected, "{json}");
        }
    }

    #[test]
    fn an_offset_without_a_time_passes_nothing_over() {
        let offset = SourceOffset { lsn_commit: Some(Lsn::new(1_000)), ..SourceOffset::default() };
        assert!(SentBefore::new(&offset).is_none());
    }

    proptest! {
        /// Stop after any row, resume with the offset that Debezium would have stored for it: nothing is lost, and what
        /// is repeated shares the LSN of the last row.
        #[test]
        fn no_row_behind_the_offset_is_skipped(last in 0usize..11, counted: bool) {
            let rows: Vec<_> = STREAM
                .iter()
                .flat_map(|tx| tx.3.iter().enumerate().map(move |(n, lsn)| (tx, n, *lsn)))
                .collect();
            let ((xid, _, time, lsns), ordinal, lsn) = rows[last];
            let position = STREAM.iter().position(|tx| tx.0 == *xid).unwrap();
            let at_lsn = lsns[..=ordinal].iter().filter(|other| **other == lsn).count();
            let offset = SourceOffset {
                lsn_proc: Some(Lsn::new(lsn)),
                lsn: Some(Lsn::new(lsn)),
                message_type: Some(MessageType::Change),
                lsn_commit: position.checked_sub(1).map(|before| Lsn::new(STREAM[before].1 + 8)),
                tx_id: Some(u64::from(*xid)),
                committed_at: Some(PgTimestamp(time * 10_000_000)),
                rows_at_lsn: counted.then_some(at_lsn as u64),
                ..SourceOffset::default()
            };
            let stream = if position == 0 { &STREAM[..] } else { &STREAM[position - 1..] };
            let resumed = sent(&offset, stream);
            let expected: Vec<_> = rows[last + 1..].iter().map(|((xid, ..), n, _)| format!("{xid}.{n}")).collect();
            prop_assert!(resumed.ends_with(&expected), "{resumed:?} of {expected:?}");
            let repeats = resumed.len() - expected.len();
            prop_assert_eq!(repeats, if counted { 0 } else { at_lsn - 1 });
        }
    }
}
