//! Values of stored offsets.

use std::fmt::{self, Display};

use serde_json::{Map, Value};

use super::incremental::{self, UnreadTable};
use pg_replication::wal::{Lsn, PgTimestamp};

/// Position up to which a connector had sent its source: the offset of the last record that the brokers acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceOffset {
    /// `lsn_proc`: the LSN of the message from which the record was made. Absent before the first streamed one.
    pub lsn_proc: Option<Lsn>,
    /// `messageType`: the kind of that message. Absent in old versions.
    pub message_type: Option<MessageType>,
    /// `lsn_commit`: the end LSN of the last transaction that was sent completely. Absent before the first.
    pub lsn_commit: Option<Lsn>,
    /// `lsn`: the same as `lsn_proc` while streaming; the WAL position of the snapshot in a snapshot.
    pub lsn: Option<Lsn>,
    /// `txId`: the transaction of the message.
    pub tx_id: Option<u64>,
    /// `ts_usec`: the commit time of that transaction. Absent for a logical message outside a transaction.
    pub committed_at: Option<PgTimestamp>,
    /// `lsn_events_processed` (Debezium 3.7 and later): the number of rows at that LSN that were sent.
    pub rows_at_lsn: Option<u64>,
    /// `snapshot`, `snapshot_completed`, `last_snapshot_record`.
    pub snapshot: SnapshotProgress,
    /// `incremental_snapshot_collections`: the tables that an incremental snapshot had not finished. outboxd never stores
    /// any.
    pub unread: Vec<UnreadTable>,
}

/// Progress of an initial snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SnapshotProgress {
    /// Streaming had begun.
    #[default]
    Over,
    /// The last row was sent; nothing was streamed yet.
    Completed,
    /// The snapshot was interrupted: Debezium would begin it again.
    Unfinished,
}

/// Kind of a message in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageType {
    /// `BEGIN`: nothing of its transaction was sent.
    Begin,
    /// `COMMIT`: its LSN is the end LSN of the transaction, all of which was sent.
    Commit,
    /// `INSERT`, `UPDATE`, `DELETE`, `TRUNCATE`: the change at its LSN was sent.
    Change,
    /// `MESSAGE` and all else.
    Other,
}

/// Error in a value that is no offset of Debezium's PostgreSQL connector.
#[derive(Debug, thiserror::Error)]
pub enum OffsetError {
    /// The value is not a JSON object.
    #[error("it is not a JSON object")]
    Json(#[source] serde_json::Error),
    /// A member has the wrong type.
    #[error("its member {0} is not what Debezium's PostgreSQL connector writes")]
    Member(&'static str),
}

const SNAPSHOT: &str = "snapshot";
const SNAPSHOT_COMPLETED: &str = "snapshot_completed";
const LAST_SNAPSHOT_RECORD: &str = "last_snapshot_record";

impl SourceOffset {
    /// Returns the offset of a connector that has sent everything before `end`, and nothing else.
    ///
    /// `lsn_proc` and `lsn` are one byte less. Debezium searches the stream for a message at `lsn_proc` and continues behind
    /// it. `end` itself can be the LSN of a row in the middle of the next transaction, behind which Debezium 3.6 would
    /// continue although the rows before it were not sent. WAL records begin at multiples of 8, so no message has an odd
    /// LSN: the search then ends at the first commit behind `lsn_commit`, and Debezium begins with the first row of that
    /// transaction.
    #[must_use]
    pub fn up_to(end: Lsn, tx_id: Option<u64>, committed_at: PgTimestamp) -> Self {
        let before = Lsn::new(end.get().saturating_sub(1));
        Self {
            lsn_proc: Some(before),
            message_type: Some(MessageType::Commit),
            lsn_commit: Some(end),
            lsn: Some(before),
            tx_id,
            committed_at: Some(committed_at),
            rows_at_lsn: None,
            snapshot: SnapshotProgress::Over,
            unread: Vec::new(),
        }
    }

    /// Reads a stored value. Unknown members are ignored.
    ///
    /// # Errors
    /// When the value is no JSON object, or a member has the wrong type.
    pub fn parse(json: &[u8]) -> Result<Self, OffsetError> {
        let members: Map<String, Value> = serde_json::from_slice(json).map_err(OffsetError::Json)?;
        let lsn = |name| Ok(number(&members, name)?.map(Lsn::new));
        Ok(Self {
            lsn_proc: lsn("lsn_proc")?,
            message_type: text(&members, "messageType")?.map(MessageType::from_name),
            lsn_commit: lsn("lsn_commit")?,
            lsn: lsn("lsn")?,
            tx_id: number(&members, "txId")?,
            committed_at: microseconds(&members, "ts_usec")?.map(PgTimestamp::from_unix_us),
            rows_at_lsn: number(&members, "lsn_events_processed")?,
            snapshot: snapshot(&members)?,
            unread: incremental::unread(&members)?,
        })
    }

    /// Returns the end of the last transaction that was sent completely, as Debezium reads it.
    #[must_use]
    pub fn last_commit(&self) -> Option<Lsn> {
        self.lsn_commit.or(self.lsn_proc)
    }

    /// Returns the furthest of the positions.
    #[must_use]
    pub fn furthest(&self) -> Lsn {
        [self.lsn_proc, self.lsn_commit, self.lsn].into_iter().flatten().max().unwrap_or_default()
    }
}

/// JSON that Connect stores: no space, members in Debezium's order.
impl Display for SourceOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lsn = |lsn: Option<Lsn>| lsn.map(|lsn| lsn.get().to_string());
        let members = [
            ("lsn_proc", lsn(self.lsn_proc)),
            ("messageType", self.message_type.map(|kind| format!("\"{}\"", kind.name()))),
            ("lsn_commit", lsn(self.lsn_commit)),
            ("lsn", lsn(self.lsn)),
            ("txId", self.tx_id.map(|tx_id| tx_id.to_string())),
            ("ts_usec", self.committed_at.map(|at| at.unix_us().to_string())),
            ("lsn_events_processed", self.rows_at_lsn.map(|rows| rows.to_string())),
            (SNAPSHOT, (self.snapshot != SnapshotProgress::Over).then(|| "\"INITIAL\"".to_owned())),
            (SNAPSHOT_COMPLETED, self.snapshot.completed()),
        ];
        let members: Vec<_> = members
            .iter()
            .filter_map(|(name, value)| Some(format!("\"{name}\":{}", value.as_ref()?)))
            .collect();
        write!(f, "{{{}}}", members.join(","))
    }
}

impl SnapshotProgress {
    fn completed(self) -> Option<String> {
        (self != Self::Over).then(|| (self == Self::Completed).to_string())
    }
}

impl MessageType {
    fn from_name(name: &str) -> Self {
        match name {
            "BEGIN" => Self::Begin,
            "COMMIT" => Self::Commit,
            "INSERT" | "UPDATE" | "DELETE" | "TRUNCATE" => Self::Change,
            _ => Self::Other,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Begin => "BEGIN",
            Self::Commit => "COMMIT",
            Self::Change => "INSERT",
            Self::Other => "MESSAGE",
        }
    }
}

fn number(members: &Map<String, Value>, name: &'static str) -> Result<Option<u64>, OffsetError> {
    member(members, name).map(|value| value.as_u64().ok_or(OffsetError::Member(name))).transpose()
}

fn microseconds(members: &Map<String, Value>, name: &'static str) -> Result<Option<i64>, OffsetError> {
    member(members, name).map(|value| value.as_i64().ok_or(OffsetError::Member(name))).transpose()
}

fn text<'m>(members: &'m Map<String, Value>, name: &'static str) -> Result<Option<&'m str>, OffsetError> {
    member(members, name).map(|value| value.as_str().ok_or(OffsetError::Member(name))).transpose()
}

/// Reads `"snapshot":"INITIAL"` with `snapshot_completed`; before Debezium 3 `"snapshot":true` with `last_snapshot_record`.
/// Snapshots of another kind run beside the stream, and are not restarted.
fn snapshot(members: &Map<String, Value>) -> Result<SnapshotProgress, OffsetError> {
    let initial = match member(members, SNAPSHOT) {
        None => false,
        Some(Value::Bool(running)) => *running,
        Some(Value::String(kind)) => kind.eq_ignore_ascii_case("initial"),
        Some(_) => return Err(OffsetError::Member(SNAPSHOT)),
    };
    if !initial {
        return Ok(SnapshotProgress::Over);
    }
    let flag = |name| {
        member(members, name).map(|value| value.as_bool().ok_or(OffsetError::Member(name))).transpose()
    };
    let completed = flag(SNAPSHOT_COMPLETED)?.unwrap_or(flag(LAST_SNAPSHOT_RECORD)?.unwrap_or(false));
    Ok(if completed { SnapshotProgress::Completed } else { SnapshotProgress::Unfinished })
}

fn member<'m>(members: &'m Map<String, Value>, name: &str) -> Option<&'m Value> {
    members.get(name).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Values that Debezium writes, recorded or by its source, and their meaning.
    const CASES: &str = include_str!("cases/offsets.tsv");

    #[test]
    fn offsets_of_every_version_are_read() {
        for line in CASES.lines().skip(1) {
            let columns: Vec<_> = line.split('\t').collect();
            let [version, json, expected] = columns[..] else { panic!("{line}") };
            let SourceOffset { lsn_proc, message_type, lsn_commit, tx_id, rows_at_lsn, snapshot, .. } =
                SourceOffset::parse(json.as_bytes()).unwrap();
            let shown = |lsn: Option<Lsn>| lsn.map_or_else(|| "-".to_owned(), |lsn| lsn.get().to_string());
            let found = format!(
                "{} {message_type:?} {} {tx_id:?} {rows_at_lsn:?} {snapshot:?}",
                shown(lsn_proc),
                shown(lsn_commit)
            );
            assert_eq!(found, expected, "{version}");
        }
    }

    #[test]
    fn what_debezium_never_writes_is_refused() {
        for json in ["", "[]", "null", "{\"lsn\":\"1\"}", "{\"lsn\":-1}", "{\"lsn\":1.5}", "{\"snapshot\":1}"]
        {
            assert!(SourceOffset::parse(json.as_bytes()).is_err(), "{json}");
        }
    }

    #[test]
    fn what_is_handed_back_is_what_debezium_reads() {
        let at = PgTimestamp::from_unix_us(1_795_219_241_069_695);
        let offset = SourceOffset::up_to(Lsn::new(26_935_168), Some(813), at);
        assert_eq!(
            offset.to_string(),
            r#"{"lsn_proc":26935167,"messageType":"COMMIT","lsn_commit":26935168,"lsn":26935167,"txId":813,"ts_usec":1795219241069695}"#
        );
    }

    fn offsets() -> impl Strategy<Value = SourceOffset> {
        let lsn = || prop::option::of(any::<u64>().prop_map(Lsn::new));
        let kinds = [MessageType::Begin, MessageType::Commit, MessageType::Change, MessageType::Other];
        let snapshots = [SnapshotProgress::Over, SnapshotProgress::Completed, SnapshotProgress::Unfinished];
        let time = prop::option::of((0..i64::MAX).prop_map(PgTimestamp::from_unix_us));
        let positions = (lsn(), lsn(), lsn(), prop::option::of(any::<u64>()), time);
        let rest = (
            prop::option::of(prop::sample::select(kinds.to_vec())),
            prop::option::of(any::<u64>()),
            prop::sample::select(snapshots.to_vec()),
        );
        (positions, rest).prop_map(
            |((lsn_proc, lsn_commit, lsn, tx_id, committed_at), (message_type, rows_at_lsn, snapshot))| {
                SourceOffset {
                    lsn_proc,
                    message_type,
                    lsn_commit,
                    lsn,
                    tx_id,
                    committed_at,
                    rows_at_lsn,
                    snapshot,
                    unread: Vec::new(),
                }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_printed_parses_to_itself(offset in offsets()) {
            prop_assert_eq!(SourceOffset::parse(offset.to_string().as_bytes()).unwrap(), offset);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            drop(SourceOffset::parse(&bytes));
        }
    }
}
