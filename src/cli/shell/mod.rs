//! Parts of all commands: arguments, prompts, progress, text.

pub(super) mod address;
pub(super) mod ask;
pub(super) mod completions;
pub(super) mod decoding;
pub(super) mod marks;
pub(super) mod next_start;
pub(super) mod notice;
pub(super) mod progress;
pub(super) mod signals;
pub(super) mod sql;
pub(super) mod steps;
pub(super) mod text;
pub(super) mod time;
pub(super) mod typed;
pub(super) mod waiting;
