//! Existing topics, and the creation of missing ones.

pub(super) mod admin;
pub(super) mod administrator;
pub(super) mod topic_creation;
pub(super) mod topic_maker;
pub(super) mod topic_probe;
pub(super) mod topic_refusal;
