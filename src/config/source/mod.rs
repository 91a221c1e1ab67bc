//! Sources of settings and their precedence.

pub(super) mod document;
pub(super) mod environment;
pub(super) mod file;
pub(super) mod file_value;
pub(super) mod layers;
pub(super) mod lookup;
pub(super) mod placeholder;
pub(super) mod profiles;
pub(super) mod properties;
mod service;
pub(super) mod settings;
mod snippet;
pub(super) mod spelling;
