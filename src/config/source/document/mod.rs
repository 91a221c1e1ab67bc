//! JSON and YAML documents, and the connectors in them.

#[cfg(test)]
mod cases;
pub(super) mod choice;
pub(super) mod connectors;
pub(super) mod json;
mod kafka_connect;
mod resource;
mod server;
pub(in crate::config) mod yaml;

use super::file::Entry;
use crate::config::notice::Notice;

/// A value of a document. Numbers and booleans are text, as they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    Null,
    Text(String),
    List(Vec<Self>),
    Map(Vec<Member>),
}

/// A key of a map with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub key: String,
    /// Line of the key, counted from 1.
    pub line: Option<usize>,
    pub value: Node,
}

/// A connector's configuration.
#[derive(Debug, Default)]
pub(super) struct Connector {
    /// Name to choose it by.
    pub name: Option<String>,
    /// Settings of the Connect worker that it runs in, if the file has them.
    pub worker: Vec<Entry>,
    pub entries: Vec<Entry>,
    pub notices: Vec<Notice>,
}

/// A document that is valid JSON or YAML and has no configuration in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct DocumentError {
    /// Line of the cause, if it has one.
    pub line: Option<usize>,
    /// Cause.
    pub reason: String,
    /// Fix.
    pub fix: Option<String>,
}

impl DocumentError {
    pub(super) fn new(line: Option<usize>, reason: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { line, reason: reason.into(), fix: Some(fix.into()) }
    }
}

impl Node {
    /// Returns the value of a key of a map.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        self.member(key).map(|member| &member.value)
    }

    fn member(&self, key: &str) -> Option<&Member> {
        self.members().iter().find(|member| member.key == key)
    }

    /// Returns the members of a map; none for any other value.
    pub(super) fn members(&self) -> &[Member] {
        match self {
            Self::Map(members) => members,
            Self::Null | Self::Text(_) | Self::List(_) => &[],
        }
    }

    pub(super) fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            Self::Null | Self::Text(_) | Self::Map(_) => &[],
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Null | Self::List(_) | Self::Map(_) => None,
        }
    }

    fn is_map(&self) -> bool {
        matches!(self, Self::Map(_))
    }
}

/// Adds the settings of a connector's map. A null counts as not set, as in Connect.
fn settings(prefix: &str, map: &Node, entries: &mut Vec<Entry>) -> Result<(), DocumentError> {
    for Member { key, line, value } in map.members() {
        match value {
            Node::Null => {}
            Node::Text(value) => {
                entries.push(Entry { key: format!("{prefix}{key}"), value: value.clone(), line: *line });
            }
            Node::List(_) | Node::Map(_) => {
                let reason = format!("the value of {key:?} is neither a string, a number nor a boolean");
                return Err(DocumentError { line: *line, reason, fix: None });
            }
        }
    }
    Ok(())
}
