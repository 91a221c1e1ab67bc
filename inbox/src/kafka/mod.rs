//! Records in, offsets and dead letters out.

mod context;
mod dead_letters;
mod error;
mod reader;
mod retention;

pub use dead_letters::DeadLetters;
pub use error::Error;
pub use reader::Consumer;

pub(crate) use context::Rebalanced;
pub(crate) use retention::{Retention, RetentionQuery};
