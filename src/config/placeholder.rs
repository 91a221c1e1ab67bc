//! `${env:X}`, `${file:/path:key}` and `${dir:/path:file}`, as Connect's config providers read them, and Quarkus's
//! `${NAME:default}`. `${routedByValue}` is the router's, however it is escaped.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path};

use super::properties;

/// Why a placeholder cannot be resolved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceholderError {
    /// `${env:X}` or `${X}`, and there is no X.
    #[error("environment variable {0:?} is not set")]
    NoVariable(String),
    /// A file that cannot be read.
    #[error("{path} cannot be read")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A properties file that cannot be parsed.
    #[error("{0} is not a properties file")]
    NotProperties(String),
    /// A properties file without that key.
    #[error("{path} has no key {key:?}")]
    NoKey {
        /// The file.
        path: String,
        /// The key.
        key: String,
    },
    /// A file name that leaves its folder.
    #[error("{0:?} is not the name of a file inside the folder")]
    OutsideFolder(String),
    /// A provider that we do not have.
    #[error("there is no config provider {0:?}: env, file and dir are available")]
    NoProvider(String),
    /// `${file:…}` or `${dir:…}` without its second part.
    #[error("${{{0}:…}} needs a path and a key: ${{{0}:/path:key}}")]
    Incomplete(String),
}

impl PlaceholderError {
    /// What to do about it.
    pub(super) fn cure(&self) -> Option<String> {
        match self {
            Self::NoVariable(name) => Some(format!("export {name}=…")),
            _ => None,
        }
    }
}

/// What the text around a placeholder allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resolver<'a> {
    /// The environment.
    pub environment: &'a HashMap<String, String>,
    /// Whether the file is Debezium Server's, where `${NAME}` and `${NAME:default}` stand for variables.
    pub expressions: bool,
}

/// A value, its placeholders resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resolved {
    pub value: String,
    /// Whether any of it came through a placeholder.
    pub provided: bool,
}

impl Resolver<'_> {
    /// Resolves every placeholder in a text, once; what they stand for is not looked at again.
    pub(super) fn resolve(self, text: &str) -> Result<Resolved, PlaceholderError> {
        let mut resolved = Resolved { value: String::with_capacity(text.len()), provided: false };
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let Some((inside, tail)) = after.split_once('}') else { break };
            let provided = if self.is_escaped(before) { None } else { self.provide(inside)? };
            match provided {
                Some(value) => {
                    resolved.provided = true;
                    resolved.value.push_str(before);
                    resolved.value.push_str(&value);
                }
                None => {
                    resolved.value.push_str(self.unescaped(before, inside));
                    resolved.value.push_str(&format!("${{{inside}}}"));
                }
            }
            rest = tail;
        }
        resolved.value.push_str(rest);
        Ok(resolved)
    }

    fn is_escaped(self, before: &str) -> bool {
        self.expressions && before.ends_with(['$', '\\'])
    }

    /// The text before a placeholder that stays, without the escapes that kept it.
    fn unescaped<'t>(self, before: &'t str, inside: &str) -> &'t str {
        if !self.expressions && inside != ROUTED {
            return before;
        }
        before
            .strip_suffix('$')
            .or_else(|| before.strip_suffix("\\\\"))
            .or_else(|| before.strip_suffix('\\'))
            .unwrap_or(before)
    }

    fn provide(self, inside: &str) -> Result<Option<String>, PlaceholderError> {
        if inside == ROUTED {
            return Ok(None);
        }
        match inside.split_once(':') {
            Some(("env", name)) => self.variable(name).map(Some),
            Some((provider @ ("file" | "dir"), location)) => {
                let (path, key) = location
                    .split_once(':')
                    .ok_or_else(|| PlaceholderError::Incomplete(provider.to_owned()))?;
                if provider == "file" { property(path, key) } else { content(path, key) }.map(Some)
            }
            Some((name, default)) if self.expressions => {
                Ok(Some(self.environment.get(name).map_or_else(|| default.to_owned(), Clone::clone)))
            }
            Some((provider, _)) => Err(PlaceholderError::NoProvider(provider.to_owned())),
            None if self.expressions => self.variable(inside).map(Some),
            None => Ok(None),
        }
    }

    fn variable(self, name: &str) -> Result<String, PlaceholderError> {
        self.environment.get(name).cloned().ok_or_else(|| PlaceholderError::NoVariable(name.to_owned()))
    }
}

/// The group of the router's default regex.
const ROUTED: &str = "routedByValue";

fn property(path: &str, key: &str) -> Result<String, PlaceholderError> {
    let bytes =
        fs::read(path).map_err(|source| PlaceholderError::Unreadable { path: path.to_owned(), source })?;
    let entries = properties::parse(&bytes).map_err(|_| PlaceholderError::NotProperties(path.to_owned()))?;
    let found = entries.into_iter().rev().find(|entry| entry.key == key);
    found
        .map(|entry| entry.value)
        .ok_or_else(|| PlaceholderError::NoKey { path: path.to_owned(), key: key.to_owned() })
}

/// The content of a file. The line end that an editor left behind it is no part of a secret.
fn content(folder: &str, name: &str) -> Result<String, PlaceholderError> {
    let mut components = Path::new(name).components();
    if !matches!((components.next(), components.next()), (Some(Component::Normal(_)), None)) {
        return Err(PlaceholderError::OutsideFolder(name.to_owned()));
    }
    let path = Path::new(folder).join(name);
    let text = fs::read_to_string(&path)
        .map_err(|source| PlaceholderError::Unreadable { path: path.display().to_string(), source })?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn resolve(text: &str, expressions: bool) -> String {
        let environment = HashMap::from([("PW".to_owned(), "s3cret".to_owned())]);
        match (Resolver { environment: &environment, expressions }).resolve(text) {
            Ok(resolved) => {
                format!("{}{}", resolved.value, if resolved.provided { " (provided)" } else { "" })
            }
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn placeholders_are_resolved_and_escapes_survive() {
        let cases = [
            ("${env:PW}", false, "s3cret (provided)"),
            ("a${env:PW}b${env:PW}", false, "as3cretbs3cret (provided)"),
            ("${env:NO}", false, "error: environment variable \"NO\" is not set"),
            (
                "${vault:x}",
                false,
                "error: there is no config provider \"vault\": env, file and dir are available",
            ),
            ("${file:/x}", false, "error: ${file:…} needs a path and a key: ${file:/path:key}"),
            (
                "${dir:/etc:../passwd}",
                false,
                "error: \"../passwd\" is not the name of a file inside the folder",
            ),
            ("${file:/no/such/file:k}", false, "error: /no/such/file cannot be read"),
            ("${PW}", false, "${PW}"),
            ("${PW}", true, "s3cret (provided)"),
            ("${NO:fallback}", true, "fallback (provided)"),
            ("${NO}", true, "error: environment variable \"NO\" is not set"),
            ("$${PW}", true, "${PW}"),
            ("t.${routedByValue}", false, "t.${routedByValue}"),
            ("t.$${routedByValue}", false, "t.${routedByValue}"),
            ("t.\\${routedByValue}", false, "t.${routedByValue}"),
            ("t.\\\\${routedByValue}", false, "t.${routedByValue}"),
            ("t.\\\\${routedByValue}", true, "t.${routedByValue}"),
            ("t.${routedByValue}", true, "t.${routedByValue}"),
            ("t.${name}.$1", false, "t.${name}.$1"),
            ("${", true, "${"),
        ];
        for (text, expressions, expected) in cases {
            assert_eq!(resolve(text, expressions), expected, "{text} {expressions}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_resolved_or_refused(text in "[a-c$\\\\{}:/]*", expressions in any::<bool>()) {
            drop(resolve(&text, expressions));
        }
    }
}
