//! Access to Kafka: reads records, commits offsets and writes dead letters.

mod committer;
mod context;
mod dead_letters;
mod error;
mod group_offset;
mod partitions;
mod producer;
mod reader;
mod retention;

pub use context::{Context, InboxContext, Rebalances};
pub use dead_letters::DeadLetters;
pub use error::Error;
pub use reader::Consumer;

pub(crate) use context::Rebalanced;
pub(crate) use dead_letters::now_ms;
pub(crate) use group_offset::{Began, GroupOffset};
pub(crate) use partitions::Partitions;
pub(crate) use retention::{Retention, RetentionQuery};
