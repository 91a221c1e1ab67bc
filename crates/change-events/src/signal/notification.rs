//! Notifications about snapshots.

use connect_data::java::hash_map::{Made, in_order};

/// A notification about a snapshot, as in Debezium.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The id of the signal that requested the snapshot. A snapshot without a signal has an id of its own.
    pub correlation: Option<String>,
    /// The subject.
    pub aggregate: Aggregate,
    /// The event.
    pub status: SnapshotStatus,
    /// Additional data, by name.
    pub data: Vec<(&'static str, String)>,
}

/// The subject of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregate {
    /// The snapshot of the first start, or a blocking one.
    InitialSnapshot,
    /// A snapshot beside the stream.
    IncrementalSnapshot,
}

/// The event of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotStatus {
    /// It begins.
    Started,
    /// Its tables are determined.
    CollectionsResolved,
    /// A chunk was read.
    InProgress,
    /// All rows of a table were read.
    TableScanCompleted,
    /// It has ended.
    Completed,
    /// It is not taken.
    Skipped,
    /// It was stopped by a signal or an error.
    Aborted,
    /// It was paused by a signal.
    Paused,
    /// It was resumed by a signal.
    Resumed,
}

impl Aggregate {
    /// Returns the name in notifications.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InitialSnapshot => "Initial Snapshot",
            Self::IncrementalSnapshot => "Incremental Snapshot",
        }
    }
}

impl SnapshotStatus {
    /// Reports whether this is the last notification of a snapshot.
    pub const fn is_last(self) -> bool {
        matches!(self, Self::Completed | Self::Aborted | Self::Skipped)
    }

    /// Returns the name in notifications.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Started => "STARTED",
            Self::CollectionsResolved => "DATA_COLLECTIONS_RESOLVED",
            Self::InProgress => "IN_PROGRESS",
            Self::TableScanCompleted => "TABLE_SCAN_COMPLETED",
            Self::Completed => "COMPLETED",
            Self::Skipped => "SKIPPED",
            Self::Aborted => "ABORTED",
            Self::Paused => "PAUSED",
            Self::Resumed => "RESUMED",
        }
    }
}

impl Notification {
    /// Returns the additional data, in the order of Debezium's map. Where that order changes from one start
    /// of Debezium to the next, it is alphabetical here.
    pub fn additional_data<'a>(&'a self, connector_name: &'a str) -> Vec<(&'a str, &'a str)> {
        let mut data: Vec<_> = self.data.iter().map(|(name, text)| (*name, text.as_str())).collect();
        data.sort_unstable();
        let made = Made::CopiedThen(data.len());
        data.push(("connector_name", connector_name));
        in_order(data, made, |(name, _)| name)
    }

    /// Returns the notification as the body of a request (`HttpNotificationChannel`).
    pub fn json(&self, id: &str, connector_name: &str, now_ms: i64) -> String {
        let data = self.additional_data(connector_name).into_iter();
        let data: serde_json::Map<_, _> = data.map(|(name, text)| (name.to_owned(), text.into())).collect();
        let (about, kind) = (self.aggregate.name(), self.status.name());
        let body = serde_json::json!({
            "aggregateType": about, "type": kind, "additionalData": data, "timestamp": now_ms, "id": id,
        });
        body.to_string()
    }

    /// Builds a notification of a snapshot that begins with the slot.
    pub const fn initial(status: SnapshotStatus, data: Vec<(&'static str, String)>) -> Self {
        Self { correlation: None, aggregate: Aggregate::InitialSnapshot, status, data }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The notifications that Debezium 3.7.0.Final has sent.
    const SENT: [&str; 3] = [
        r#"{"aggregateType":"Initial Snapshot","type":"IN_PROGRESS","additionalData":{"current_collection_in_progress":"public.a","connector_name":"srv","data_collections":"public.a"},"timestamp":1795578454745,"id":"i"}"#,
        r#"{"aggregateType":"Incremental Snapshot","type":"TABLE_SCAN_COMPLETED","additionalData":{"scanned_collection":"public.a","connector_name":"srv","total_rows_scanned":"1","total_rows":"1","data_collections":"public.a","status":"SUCCEEDED"},"timestamp":1795578464224,"id":"s1"}"#,
        r#"{"aggregateType":"Incremental Snapshot","type":"COMPLETED","additionalData":{"connector_name":"srv"},"timestamp":1795578464225,"id":"s1"}"#,
    ];

    const IN_OUR_ORDER: &str = r#""data_collections":"public.a","status":"SUCCEEDED","total_rows":"1""#;

    #[test]
    fn the_body_is_that_of_debezium() {
        let a = || "public.a".to_owned();
        let one = || "1".to_owned();
        let of = |aggregate, status, data: Vec<(&'static str, String)>, id, at| {
            Notification { correlation: None, aggregate, status, data }.json(id, "srv", at)
        };
        let bodies = [
            of(
                Aggregate::InitialSnapshot,
                SnapshotStatus::InProgress,
                vec![("data_collections", a()), ("current_collection_in_progress", a())],
                "i",
                1_795_578_454_745,
            ),
            of(
                Aggregate::IncrementalSnapshot,
                SnapshotStatus::TableScanCompleted,
                vec![
                    ("data_collections", a()),
                    ("scanned_collection", a()),
                    ("status", "SUCCEEDED".to_owned()),
                    ("total_rows", one()),
                    ("total_rows_scanned", one()),
                ],
                "s1",
                1_795_578_464_224,
            ),
            of(
                Aggregate::IncrementalSnapshot,
                SnapshotStatus::Completed,
                Vec::new(),
                "s1",
                1_795_578_464_225,
            ),
        ];
        for (body, sent) in bodies.iter().zip(SENT) {
            // `total_rows`, `data_collections` and `status` are in one bucket, where Debezium's order differs
            // at each start.
            let sent = sent.replace(
                r#""total_rows":"1","data_collections":"public.a","status":"SUCCEEDED""#,
                IN_OUR_ORDER,
            );
            assert_eq!(*body, sent);
        }
    }
}
