//! Rows that are read instead of streamed: all rows of a table as of the slot's snapshot, or chunks of a table beside the stream.

pub(super) mod chunk;
pub(super) mod pages;
pub(super) mod reader;
mod rewritten;
pub(super) mod row_batch;
