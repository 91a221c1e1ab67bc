//! `${env:X}`, `${file:/path:key}`, `${dir:/path:file}` and `${vault:path:key}`, as Connect's config providers read them, and Quarkus's
//! `${NAME:default}`. `${routedByValue}` belongs to the EventRouter, whether it is escaped or not.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path};

use zeroize::Zeroizing;

use super::properties;
use crate::credentials::{Vault, VaultError};

/// Reason why a placeholder cannot be resolved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceholderError {
    /// `${env:X}` or `${X}` without a variable X.
    #[error("environment variable {0:?} is not set")]
    NoVariable(String),
    /// A file that cannot be read.
    #[error("{path} cannot be read")]
    Unreadable {
        /// The file.
        path: String,
        /// Cause.
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
    /// A provider that outboxd does not have, and the rest of the placeholder.
    #[error("there is no config provider {0:?}: env, file, dir and vault are available")]
    NoProvider(String, String),
    /// `${file:…}` or `${dir:…}` without its second part, and its first.
    #[error("${{{0}:…}} needs a path and a key: ${{{0}:/path:key}}")]
    Incomplete(String, String),
    /// A secret of Vault that cannot be read.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// An expression of Terraform.
    #[error("only Terraform can evaluate the expression in its place ({0})")]
    Terraform(String),
    /// `${X}` in a connector's configuration, which Kafka Connect does not resolve either.
    #[error("${{{0}}} is no placeholder here: only Debezium Server reads a variable that way")]
    Bare(String),
}

impl PlaceholderError {
    /// Returns the fix, if one is known.
    pub(in crate::config) fn fix(&self) -> Option<String> {
        Some(match self {
            Self::NoVariable(name) => format!("export {name}=…"),
            Self::Bare(name) | Self::Terraform(name) => format!("write {}", variable_of(name)),
            Self::Incomplete(provider, path) if provider == "vault" => format!("write ${{vault:{path}:KEY}}"),
            Self::Incomplete(_, path) => match path.rsplit_once('/') {
                // The whole content of a file, such as a mounted secret.
                Some((folder, name)) if !name.is_empty() => {
                    let folder = if folder.is_empty() { "/" } else { folder };
                    format!("write ${{dir:{folder}:{name}}}")
                }
                _ => return None,
            },
            Self::NoProvider(provider, rest) => provider_fix(provider, rest),
            Self::Vault(error) => return error.fix(),
            Self::Unreadable { path, .. } if path.starts_with("/run/secrets/") => {
                format!("mount the secret at {}", path.rsplit_once('/')?.0)
            }
            Self::Unreadable { .. }
            | Self::NotProperties(_)
            | Self::NoKey { .. }
            | Self::OutsideFolder(_) => return None,
        })
    }
}

/// Parts of the keys whose values are texts in which `${X}` can have a meaning of its own, such as a named group of a regular expression.
const TEXTS: [&str; 7] = ["statement", "query", "select", "template", "format", "regex", "replacement"];

/// Returns what replaces a placeholder of a provider that outboxd does not have.
fn provider_fix(provider: &str, rest: &str) -> String {
    let key = rest.rsplit([':', '/']).next().unwrap_or_default();
    if provider == "directory" {
        return format!("write ${{dir:{rest}}}");
    }
    if rest.starts_with('-') || rest.is_empty() {
        // A shell's default, `${NAME:-default}`.
        return format!("write {}", variable_of(provider));
    }
    let is_of_cluster = provider.starts_with("secret") || provider.starts_with("configmap");
    let mounted = if is_of_cluster { " from the mounted secret" } else { "" };
    format!("write {}, or ${{dir:/run/secrets:{key}}}{mounted}", variable_of(key))
}

/// Returns the placeholder of a variable for a name in another tool's notation, such as `var.db_password`.
fn variable_of(name: &str) -> String {
    let name = name.rsplit('.').next().unwrap_or_default();
    let legal = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let is_variable = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let name = if is_variable && name.chars().any(|c| c.is_ascii_uppercase()) {
        name.to_owned()
    } else {
        name.chars().map(legal).collect()
    };
    format!("${{env:{name}}}")
}

/// Context in which placeholders are resolved.
#[derive(Debug, Clone, Copy)]
pub(in crate::config) struct Resolver<'a> {
    /// The environment.
    pub environment: &'a HashMap<String, String>,
    /// True for Debezium Server's file, in which `${NAME}` and `${NAME:default}` stand for variables.
    pub expressions: bool,
}

/// A value with its placeholders resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::config) struct Resolved {
    pub value: String,
    /// True if any part of it came through a placeholder.
    pub provided: bool,
}

impl Resolver<'_> {
    /// Resolves every placeholder in a text, once; placeholders in the resolved values are not resolved.
    pub(in crate::config) fn resolve(self, text: &str) -> Result<Resolved, PlaceholderError> {
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

    /// Refuses `${X}` in the value of a key for which it can only be a variable: a value such as a host or a password. In
    /// a transform, a predicate or a statement it may be text.
    pub(in crate::config) fn refuse_bare(self, key: &str, text: &str) -> Result<(), PlaceholderError> {
        let is_text =
            ["transforms.", "predicates.", "header.converter"].iter().any(|start| key.contains(start))
                || TEXTS.iter().any(|part| key.contains(part));
        if self.expressions || is_text {
            return Ok(());
        }
        let is_name = |name: &str| {
            !name.is_empty()
                && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
        };
        let names = text.split("${").skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name);
        match names.into_iter().find(|name| *name != ROUTED && is_name(name)) {
            Some(name) => Err(PlaceholderError::Bare(name.to_owned())),
            None => Ok(()),
        }
    }

    /// Returns whether the text contains a placeholder whose value may change: of a file or of Vault.
    pub(in crate::config) fn reads_again(self, text: &str) -> bool {
        text.match_indices("${").any(|(at, _)| {
            let (before, inside) = (text.get(..at), text.get(at..).and_then(|rest| rest.split_once('}')));
            let changes = |(inside, _): (&str, &str)| {
                ["${file:", "${dir:", "${vault:"].iter().any(|start| inside.starts_with(start))
            };
            inside.is_some_and(changes) && !before.is_some_and(|before| self.is_escaped(before))
        })
    }

    fn is_escaped(self, before: &str) -> bool {
        self.expressions && before.ends_with(['$', '\\'])
    }

    /// Returns the text before a placeholder that is not resolved, without the escapes that protected it.
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
            Some((provider @ ("file" | "dir" | "vault"), location)) => {
                let (path, key) = location
                    .split_once(':')
                    .ok_or_else(|| PlaceholderError::Incomplete(provider.to_owned(), location.to_owned()))?;
                match provider {
                    "file" => property(path, key).map(Some),
                    "dir" => content(path, key).map(Some),
                    _ => Ok(Some(Vault::of(self.environment)?.read(path, key)?.expose().to_owned())),
                }
            }
            Some((name, default)) if self.expressions => {
                Ok(Some(self.environment.get(name).map_or_else(|| default.to_owned(), Clone::clone)))
            }
            Some(("terraform", expression)) => Err(PlaceholderError::Terraform(expression.to_owned())),
            Some((provider, rest)) => Err(PlaceholderError::NoProvider(provider.to_owned(), rest.to_owned())),
            None if self.expressions => self.variable(inside).map(Some),
            None => Ok(None),
        }
    }

    fn variable(self, name: &str) -> Result<String, PlaceholderError> {
        self.environment.get(name).cloned().ok_or_else(|| PlaceholderError::NoVariable(name.to_owned()))
    }
}

/// Name of the group in the EventRouter's default regular expression.
const ROUTED: &str = "routedByValue";

fn property(path: &str, key: &str) -> Result<String, PlaceholderError> {
    let bytes = fs::read(path)
        .map(Zeroizing::new)
        .map_err(|source| PlaceholderError::Unreadable { path: path.to_owned(), source })?;
    let entries = properties::parse(&bytes).map_err(|_| PlaceholderError::NotProperties(path.to_owned()))?;
    let found = entries.into_iter().rev().find(|entry| entry.key == key);
    found
        .map(|entry| entry.value)
        .ok_or_else(|| PlaceholderError::NoKey { path: path.to_owned(), key: key.to_owned() })
}

/// Returns the content of a file, without a line end at its end: an editor adds it, and it is not part of a secret.
fn content(folder: &str, name: &str) -> Result<String, PlaceholderError> {
    let mut components = Path::new(name).components();
    if !matches!((components.next(), components.next()), (Some(Component::Normal(_)), None)) {
        return Err(PlaceholderError::OutsideFolder(name.to_owned()));
    }
    let path = Path::new(folder).join(name);
    let text = fs::read_to_string(&path)
        .map(Zeroizing::new)
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
            ("${vault:x}", false, "error: ${vault:…} needs a path and a key: ${vault:/path:key}"),
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

    #[test]
    fn what_cannot_be_resolved_names_what_to_write() {
        let cases = [
            (
                "${secrets:shop/database:password}",
                "write ${env:PASSWORD}, or ${dir:/run/secrets:password} from the mounted secret",
            ),
            ("${vault:secret/data/db:password}", "export VAULT_ADDR=…"),
            ("${vault:secret/data/db}", "write ${vault:secret/data/db:KEY}"),
            ("${aws:secret/db:password}", "write ${env:PASSWORD}, or ${dir:/run/secrets:password}"),
            ("${directory:/opt/kafka/db:password}", "write ${dir:/opt/kafka/db:password}"),
            ("${file:/run/secrets/password}", "write ${dir:/run/secrets:password}"),
            ("${DB_PASSWORD:-postgres}", "write ${env:DB_PASSWORD}"),
            ("${env:NO}", "export NO=…"),
            ("${DB_PASSWORD}", "write ${env:DB_PASSWORD}"),
            ("a-${var.db_password}", "write ${env:DB_PASSWORD}"),
            ("${file:/no/such/file:k}", ""),
            ("${routedByValue}", "nothing"),
            ("a$b{c}", "nothing"),
        ];
        let environment = HashMap::new();
        let resolver = Resolver { environment: &environment, expressions: false };
        for (text, expected) in cases {
            let read = resolver.resolve(text).and_then(|_| resolver.refuse_bare("database.password", text));
            let fix = read.map_or_else(|error| error.fix().unwrap_or_default(), |()| "nothing".to_owned());
            assert_eq!(fix, expected, "{text}");
        }
        for key in ["transforms.route.replacement", "topic.replacement"] {
            assert!(resolver.refuse_bare(key, "${name}").is_ok());
        }
        assert!((Resolver { expressions: true, ..resolver }).refuse_bare("a", "${b}").is_ok());
    }

    proptest! {
        #[test]
        fn any_text_is_resolved_or_refused(text in "[a-c$\\\\{}:/]*", expressions in any::<bool>()) {
            drop(resolve(&text, expressions));
        }
    }
}
