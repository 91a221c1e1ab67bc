//! Signals, and the incremental snapshots that they request.
//!
//! ```text
//! a row of the signalling table ─▶ Signal ─▶ Incremental ─▶ Ask: open a window, read a chunk, close the window
//! the stream: watermarks, changed keys ──────▶ │  ▲
//!                                              │  └─ Answer: what was done, what was read
//!                                              ▼
//!                            rows to send, notifications to tell
//! ```
//!
//! This module sends no query and reads no clock: its caller executes the requested actions.

mod blocking;
mod condition;
mod incremental;
mod message;
mod notification;
mod options;
mod place;
mod visibility;
mod window;

pub use blocking::{Blocking, ScanAsk, ScanTable, Scanned, ScannedRow, Values};
pub use condition::{Condition, expand, unquoted};
pub use incremental::{Answer, Ask, Checkpoint, Collection, Incremental, Sendable, StoredCheckpoint};
pub use message::{Action, Signal, SnapshotKind, SnapshotRequest};
pub use notification::{Notification, SnapshotStatus};
pub use options::{NotificationOptions, SignalOptions, Watermarks};
pub use place::{Chunk, ChunkKey, ChunkRequest, NoChunk, ReadRow};
pub use visibility::{PgSnapshot, Recent};
pub use window::RowKey;
