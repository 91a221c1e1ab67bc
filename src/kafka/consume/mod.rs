//! Reading topics.

pub(super) mod group_offsets;
pub(super) mod log_ends;
pub(super) mod reader;
pub(super) mod record_reader;
pub(super) mod stable_ends;
pub(super) mod taken_back;
pub(super) mod topic_follow;
pub(super) mod topic_scan;
pub(super) mod topic_tail;
