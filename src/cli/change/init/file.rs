//! The configuration file that `init` writes.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::error::InitError;
use super::given::is_properties;
use crate::cli::inspect::config::property;

/// Checks that a file can be created there, before anything else is created.
pub(super) fn check_folder(path: &Path) -> Result<(), InitError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let made = tempfile::Builder::new().prefix(".outboxd-init-").tempfile_in(folder);
    made.map(drop).map_err(|source| InitError::Write { path: path.to_owned(), source })
}

/// Writes the configuration into a file that must not exist yet.
pub(super) fn write(path: &Path, settings: &[(String, String)]) -> Result<(), InitError> {
    let text = if is_properties(path) {
        settings.iter().map(|(key, value)| property(key, value)).collect()
    } else {
        as_json(settings)
    };
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| InitError::Write { path: path.to_owned(), source })
}

/// Returns the format of a file whose name does not show it.
pub(super) fn form(path: &Path) -> &'static str {
    let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    if is_json || is_properties(path) { "" } else { ", in JSON" }
}

fn as_json(settings: &[(String, String)]) -> String {
    let config: Map<String, Value> =
        settings.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    let name = config.get("name").cloned();
    format!("{:#}\n", json!({ "name": name, "config": config }))
}
