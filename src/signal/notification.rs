/// What is told of snapshots, as Debezium's notifications tell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notification {
    /// The signal that asked for the snapshot. One that nobody asked for has an id of its own.
    pub(crate) correlation: Option<String>,
    pub(crate) aggregate: Aggregate,
    pub(crate) status: SnapshotStatus,
    /// By their names.
    pub(crate) data: Vec<(&'static str, String)>,
}

/// What a notification is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aggregate {
    InitialSnapshot,
    IncrementalSnapshot,
}

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SnapshotStatus {
    Started,
    CollectionsResolved,
    InProgress,
    TableScanCompleted,
    Completed,
    Skipped,
    Aborted,
    Paused,
    Resumed,
}

impl Aggregate {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::InitialSnapshot => "Initial Snapshot",
            Self::IncrementalSnapshot => "Incremental Snapshot",
        }
    }
}

impl SnapshotStatus {
    pub(crate) const fn name(self) -> &'static str {
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
    /// Of a snapshot that begins with the slot.
    pub(crate) const fn initial(status: SnapshotStatus, data: Vec<(&'static str, String)>) -> Self {
        Self { correlation: None, aggregate: Aggregate::InitialSnapshot, status, data }
    }
}
