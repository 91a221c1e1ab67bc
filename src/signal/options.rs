use std::path::PathBuf;
use std::time::Duration;

/// Which signals are heard, and how incremental snapshots are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SignalOptions {
    /// `signal.data.collection`: the signalling table, `schema.table`.
    pub(crate) table: Option<String>,
    /// `signal.enabled.channels` has `source`.
    pub(crate) from_table: bool,
    /// `signal.file` (file-signals.txt), when `signal.enabled.channels` has `file`.
    pub(crate) file: Option<PathBuf>,
    /// `signal.kafka.topic` (`<topic.prefix>-signal`), when `signal.enabled.channels` has `kafka`.
    pub(crate) topic: Option<String>,
    /// `signal.kafka.bootstrap.servers`: where that topic is; the Kafka that records go to when it is not said.
    pub(crate) servers: Option<String>,
    /// `signal.kafka.groupId` (kafka-signal)
    pub(crate) group: String,
    /// `topic.prefix`: the key of the signals in the topic that are for this connector.
    pub(crate) key: String,
    /// `signal.poll.interval.ms` (5 s): how often the file is looked at.
    pub(crate) poll_interval: Duration,
    /// `incremental.snapshot.chunk.size` (1024): rows that are read at a time.
    pub(crate) chunk_rows: usize,
    /// How the stream shows where a chunk was read.
    pub(crate) watermarks: Watermarks,
}

/// How the stream shows where a chunk was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watermarks {
    /// `incremental.snapshot.watermarking.strategy=insert_insert`: two rows in the signalling table.
    InsertInsert,
    /// `incremental.snapshot.watermarking.strategy=insert_delete`: a row that is inserted, and deleted again.
    InsertDelete,
    /// `read.only=true`: logical messages; no table is written.
    Messages,
}

impl SignalOptions {
    /// Nothing is heard.
    pub(crate) const fn none() -> Self {
        Self {
            table: None,
            from_table: false,
            file: None,
            topic: None,
            servers: None,
            group: String::new(),
            key: String::new(),
            poll_interval: Duration::from_secs(5),
            chunk_rows: 1024,
            watermarks: Watermarks::InsertInsert,
        }
    }

    /// Whether logical messages are signals or watermarks.
    pub(crate) fn reads_messages(&self) -> bool {
        let marks = self.watermarks == Watermarks::Messages && self.is_on();
        marks || self.file.is_some() || self.topic.is_some()
    }

    /// Whether anything is heard.
    pub(crate) const fn is_on(&self) -> bool {
        self.table.is_some() && self.from_table || self.file.is_some() || self.topic.is_some()
    }
}

/// Where snapshots are told of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NotificationOptions {
    /// `notification.sink.topic.name`, when `notification.enabled.channels` has `sink`.
    pub(crate) topic: Option<String>,
    /// `notification.enabled.channels` has `log`.
    pub(crate) log: bool,
    /// `notification.enabled.channels` has `http`.
    pub(crate) http: bool,
}

impl NotificationOptions {
    /// Whether anything is told.
    pub(crate) const fn is_on(&self) -> bool {
        self.topic.is_some() || self.log || self.http
    }
}
