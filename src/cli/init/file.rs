use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::error::InitError;
use super::given::is_properties;
use crate::cli::config::property;

/// Writes the configuration into a file that is not there yet.
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

fn as_json(settings: &[(String, String)]) -> String {
    let config: Map<String, Value> =
        settings.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    let name = config.get("name").cloned();
    format!("{:#}\n", json!({ "name": name, "config": config }))
}
