//! Options of signals and incremental snapshots.

use std::path::PathBuf;
use std::time::Duration;

/// Options of signals and incremental snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignalOptions {
    /// `signal.data.collection`: the signalling table, `schema.table`.
    pub table: Option<String>,
    /// True if `signal.enabled.channels` has `source`.
    pub from_table: bool,
    /// `signal.file` (file-signals.txt), if `signal.enabled.channels` has `file`.
    pub file: Option<PathBuf>,
    /// `signal.kafka.topic` (`<topic.prefix>-signal`), if `signal.enabled.channels` has `kafka`.
    pub topic: Option<String>,
    /// `signal.kafka.bootstrap.servers`: the brokers of that topic; the default is those of the records.
    pub servers: Option<String>,
    /// `signal.kafka.groupId` (kafka-signal)
    pub group: String,
    /// `topic.prefix`: the key of this connector's signals in the topic.
    pub key: String,
    /// `signal.poll.interval.ms` (5 s): the interval of polls of the file.
    pub poll_interval: Duration,
    /// `incremental.snapshot.chunk.size` (1024): the number of rows of a chunk.
    pub chunk_rows: usize,
    /// The form of the watermarks.
    pub watermarks: Watermarks,
}

/// The form of the watermarks, which mark the position of a chunk in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watermarks {
    /// `incremental.snapshot.watermarking.strategy=insert_insert`: two rows in the signalling table.
    InsertInsert,
    /// `incremental.snapshot.watermarking.strategy=insert_delete`: a row that is inserted, and then deleted.
    InsertDelete,
    /// `read.only=true`: logical messages; no table is written.
    Messages,
}

impl SignalOptions {
    /// Returns the options without any channel.
    pub const fn none() -> Self {
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

    /// Reports whether logical messages are signals or watermarks.
    pub fn reads_messages(&self) -> bool {
        let marks = self.watermarks == Watermarks::Messages && self.is_on();
        marks || self.file.is_some() || self.topic.is_some()
    }

    /// Reports whether any channel is enabled.
    pub const fn is_on(&self) -> bool {
        self.table.is_some() && self.from_table || self.file.is_some() || self.topic.is_some()
    }
}

/// Options of notifications.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NotificationOptions {
    /// `notification.sink.topic.name`, if `notification.enabled.channels` has `sink`.
    pub topic: Option<String>,
    /// True if `notification.enabled.channels` has `log`.
    pub log: bool,
    /// True if `notification.enabled.channels` has `http`.
    pub http: bool,
}

impl NotificationOptions {
    /// Reports whether any channel is enabled.
    pub const fn is_on(&self) -> bool {
        self.topic.is_some() || self.log || self.http
    }
}
