//! A configuration file, in whichever of the three formats it is written.

use std::fs;
use std::path::Path;

use super::error::Problem;
use super::{json, properties};

/// One key as a file says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub key: String,
    pub value: String,
    pub line: Option<usize>,
}

/// Reads a file. JSON is told by its extension or by its first character, anything else is properties.
pub(super) fn read(path: &Path) -> Result<Vec<Entry>, Problem> {
    let bytes = fs::read(path).map_err(|source| Problem::Unreadable { path: path.into(), source })?;
    if !is_json(path, &bytes) {
        return properties::parse(&bytes).map_err(|source| Problem::Properties { path: path.into(), source });
    }
    let text = String::from_utf8_lossy(&bytes);
    json::parse(&text).map_err(|source| Problem::Json { path: path.into(), source })
}

/// Whether the entries are Debezium Server's, whose defaults on the wire differ from Connect's.
pub(super) fn is_server(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| entry.key.starts_with("debezium."))
}

fn is_json(path: &Path, bytes: &[u8]) -> bool {
    let first = String::from_utf8_lossy(bytes).trim_start_matches('\u{feff}').trim_start().chars().next();
    first == Some('{') || path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_told_by_extension_or_content() {
        let cases = [
            ("a.json", "", true),
            ("a.JSON", "a=b", true),
            ("a", "\u{feff} \n{", true),
            ("a.properties", "{\"a\":1}", true),
            ("a.properties", "a=b", false),
            ("a", "", false),
        ];
        for (path, text, expected) in cases {
            assert_eq!(is_json(Path::new(path), text.as_bytes()), expected, "{path} {text:?}");
        }
    }
}
