//! Tests of the repository and of recordings: no server, a few seconds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod allocations;
mod comments;
mod failure_modes;
mod fixes;
mod fuzz_corpora;
mod golden;
mod imports;
mod install;
mod inventory;
mod links;
mod module_paths;
mod picture;
mod tidy;
mod tool_lines;
