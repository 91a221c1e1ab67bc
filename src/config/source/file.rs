//! A configuration file, in any of its formats.

use std::fs;
use std::path::{Path, PathBuf};

use super::document::connectors::{Format, find};
use super::document::yaml::YamlError;
use super::document::{Connector, DocumentError, choice, json, yaml};
use super::{properties, snippet};
use crate::config::error::Problem;
use crate::config::notice::Notice;

/// A key and its value in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::config) struct Entry {
    pub key: String,
    pub value: String,
    pub line: Option<usize>,
}

/// The chosen configuration of a file.
#[derive(Debug)]
pub(in crate::config) struct Chosen {
    pub path: PathBuf,
    /// Entries of the Connect worker, if the file has them, and of the connector.
    pub layers: Vec<Vec<Entry>>,
    pub notices: Vec<Notice>,
}

/// Reason why a text is no configuration.
#[derive(Debug)]
pub(super) enum Unread {
    Json(serde_json::Error),
    Yaml(YamlError),
    Properties(java_properties::PropertiesError),
    Document(DocumentError),
}

/// Reads a file, or the connector of it that `FILE#NAME` names.
pub(in crate::config) fn read(named: &Path) -> Result<Chosen, Problem> {
    let (path, wanted) = split(named);
    let bytes = fs::read(&path).map_err(|source| Problem::Unreadable { path: path.clone(), source })?;
    let connectors = parse(&path, &bytes).map_err(|unread| match unread {
        Unread::Json(source) => Problem::Json { path: path.clone(), source },
        Unread::Yaml(source) => {
            let is_template = bytes.windows(2).any(|two| two == b"{{");
            Problem::Yaml { path: path.clone(), source: Box::new(source), is_template }
        }
        Unread::Properties(source) => Problem::Properties { path: path.clone(), source },
        Unread::Document(source) => Problem::Document { path: path.clone(), source: Box::new(source) },
    })?;
    let chosen = choice::choose(connectors, wanted.as_deref());
    let Connector { worker, entries, notices, .. } =
        chosen.map_err(|names| Problem::Connectors { path: path.clone(), wanted, names })?;
    let layers = [worker, entries].into_iter().filter(|entries| !entries.is_empty()).collect();
    Ok(Chosen { path, layers, notices })
}

/// Parses the text of a file. Its extension or its beginning identifies JSON and YAML; any other file is properties.
pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<Connector>, Unread> {
    let text = || String::from_utf8_lossy(bytes);
    let (documents, format) = match format(path, bytes) {
        Some(Format::Json) => (vec![json::parse(&text()).map_err(Unread::Json)?], Format::Json),
        Some(Format::Yaml) => (yaml::parse(&text()).map_err(Unread::Yaml)?, Format::Yaml),
        None => {
            if let Some(connectors) = snippet::parse(&text()) {
                return Ok(connectors);
            }
            let entries = properties::parse(bytes).map_err(Unread::Properties)?;
            let name =
                entries.iter().rev().find(|entry| entry.key == "name").map(|entry| entry.value.clone());
            return Ok(vec![Connector { name, entries, ..Connector::default() }]);
        }
    };
    find(&documents, format).map_err(Unread::Document)
}

/// Splits `FILE#NAME`. A file with that whole name comes first.
fn split(named: &Path) -> (PathBuf, Option<String>) {
    let whole = (named.to_owned(), None);
    if named.exists() {
        return whole;
    }
    let parts = named.to_str().and_then(|text| text.rsplit_once('#'));
    match parts {
        Some((path, name)) if Path::new(path).is_file() => (path.into(), Some(name.to_owned())),
        _ => whole,
    }
}

/// Returns whether the entries are Debezium Server's, whose default wire formats differ from Connect's.
pub(in crate::config) fn is_server(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| entry.key.starts_with("debezium."))
}

fn format(path: &Path, bytes: &[u8]) -> Option<Format> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_start_matches('\u{feff}');
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "json" => Some(Format::Json),
        _ if text.trim_start().starts_with('{') => Some(Format::Json),
        "yaml" | "yml" => Some(Format::Yaml),
        _ if text.trim_start().starts_with("[{") => Some(Format::Json),
        _ => {
            let is_yaml = |line: &str| line.starts_with("apiVersion:") || line.trim_end() == "---";
            text.lines().any(is_yaml).then_some(Format::Yaml)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_recognized_by_extension_or_content() {
        let cases = [
            ("a.json", "", Some(Format::Json)),
            ("a.JSON", "a=b", Some(Format::Json)),
            ("a", "\u{feff} \n{", Some(Format::Json)),
            ("a.properties", "{\"a\":1}", Some(Format::Json)),
            ("a.yaml", "{\"a\":1}", Some(Format::Json)),
            ("a.yaml", "a: b", Some(Format::Yaml)),
            ("a.YML", "", Some(Format::Yaml)),
            ("a.txt", "# by us\napiVersion: v1", Some(Format::Yaml)),
            ("a", "---\na: b", Some(Format::Yaml)),
            ("a", "[{\"name\": \"n\"}]", Some(Format::Json)),
            ("a.properties", "a: b", None),
            ("a.properties", "a=b", None),
            ("a", "", None),
        ];
        for (path, text, expected) in cases {
            assert_eq!(format(Path::new(path), text.as_bytes()), expected, "{path} {text:?}");
        }
    }
}
