//! `custom.metric.tags`: labels of the metrics that have Debezium's names.

use crate::config::read::Reader;

const TAGS: &str = "custom.metric.tags";

/// Labels that these metrics already have.
const OWN: [&str; 3] = ["plugin", "name", "context"];

/// Reads name and value of each label.
pub(in crate::config) fn options(reader: &mut Reader<'_>) -> Vec<(String, String)> {
    let Some(setting) = reader.settings.get(TAGS) else { return Vec::new() };
    let mut tags: Vec<(String, String)> = Vec::new();
    for entry in setting.value.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let pair = entry.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
        let is_new = |name: &str| !OWN.contains(&name) && tags.iter().all(|(known, _)| known != name);
        match pair.filter(|(name, value)| is_label(name) && is_new(name) && !value.is_empty()) {
            Some((name, value)) => tags.push((name.to_owned(), value.to_owned())),
            None => {
                let reason = "it takes name=value,name=value; a name has letters, digits and _, stands there once, and is not \
                              plugin, name or context";
                reader.invalid(setting, reason);
                return Vec::new();
            }
        }
    }
    tags
}

/// Returns whether Prometheus accepts the name of a label.
fn is_label(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && !name.starts_with("__")
        && name.chars().all(is_part)
}
