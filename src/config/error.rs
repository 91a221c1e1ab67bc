//! Everything that can be wrong with a configuration, told together.

use std::fmt;
use std::path::PathBuf;

use crate::error::{Class, Diagnose};

use super::placeholder::PlaceholderError;
use super::settings::{Origin, Setting};

/// A configuration that cannot work: every mistake that was found, never none.
#[derive(Debug)]
pub(crate) struct ConfigError {
    first: Problem,
    others: Vec<Problem>,
}

impl ConfigError {
    /// The error of these mistakes; none without any.
    pub(crate) fn of(problems: Vec<Problem>) -> Option<Self> {
        let mut problems = problems.into_iter();
        let first = problems.next()?;
        Some(Self { first, others: problems.collect() })
    }

    /// The same mistakes one by one.
    pub(crate) fn into_problems(self) -> Vec<Problem> {
        std::iter::once(self.first).chain(self.others).collect()
    }

    /// Every mistake, in the order they were found.
    pub(crate) fn problems(&self) -> impl Iterator<Item = &Problem> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

impl From<Problem> for ConfigError {
    fn from(first: Problem) -> Self {
        Self { first, others: Vec::new() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.others.is_empty() {
            return self.first.fmt(f);
        }
        write!(f, "the configuration has {} mistakes", self.problems().count())?;
        for problem in self.problems() {
            write!(f, "\n  - {problem}")?;
            if let Some(source) = std::error::Error::source(problem) {
                write!(f, ": {source}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if self.others.is_empty() { std::error::Error::source(&self.first) } else { None }
    }
}

impl Diagnose for ConfigError {
    fn class(&self) -> Class {
        Class::Config
    }

    fn cure(&self) -> Option<String> {
        let mut cures: Vec<_> = self.problems().filter_map(Problem::cure).collect();
        cures.dedup();
        (!cures.is_empty()).then(|| cures.join("\n"))
    }
}

/// One mistake.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Problem {
    /// A file that cannot be read.
    #[error("configuration file {} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that is no connector JSON.
    #[error("{} is not the JSON of a connector", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A file that is no properties file.
    #[error("{} is not a properties file", path.display())]
    Properties {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: java_properties::PropertiesError,
    },
    /// `-X` without a key and a value.
    #[error("-X takes key=value, not {0:?}")]
    Override(String),
    /// A key that is not in the tables.
    #[error("{}: unknown key {:?}", said.origin, said.key)]
    UnknownKey {
        /// What was said.
        said: Box<Said>,
        /// The key that was meant, perhaps.
        nearest: Option<String>,
    },
    /// A variable with one of our prefixes that is no key.
    #[error("environment variable {name} is not a known key")]
    UnknownVariable {
        /// Its name.
        name: String,
        /// The variable that was meant, perhaps.
        nearest: Option<String>,
    },
    /// A value that its key does not take.
    #[error("{said} is not allowed: {allowed}")]
    InvalidValue {
        /// What was said.
        said: Box<Said>,
        /// What is allowed.
        allowed: String,
    },
    /// A value that Debezium takes and we must not: records would be lost or changed.
    #[error("{said} is refused: {reason}")]
    Refused {
        /// What was said.
        said: Box<Said>,
        /// Why.
        reason: String,
        /// What to do instead.
        cure: String,
    },
    /// A key that must be said.
    #[error("{key} is missing: {reason}")]
    Missing {
        /// The key.
        key: String,
        /// What it is needed for.
        reason: String,
        /// The lines to add.
        lines: String,
    },
    /// A placeholder that cannot be resolved.
    #[error("{}: the placeholder in {} cannot be resolved", said.origin, said.key)]
    Placeholder {
        /// What was said.
        said: Box<Said>,
        /// Why.
        source: PlaceholderError,
    },
}

/// Whether a key is read by outboxd or by a Kafka client, and not by Debezium.
fn is_ours(key: &str) -> bool {
    ["outboxd.", "rdkafka."].iter().any(|prefix| key.starts_with(prefix)) || key.contains("producer.")
}

fn meant(nearest: Option<&str>) -> Option<String> {
    nearest.map(|nearest| format!("did you mean {nearest}?"))
}

/// What was said, as it may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The key, as it was written.
    pub key: String,
    /// Where.
    pub origin: Origin,
    /// The value, masked if it is a secret.
    pub value: String,
}

impl From<&Setting> for Box<Said> {
    fn from(setting: &Setting) -> Self {
        let (key, origin) = (setting.shown_key(), setting.origin.clone());
        Self::new(Said { key, origin, value: setting.to_string() })
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}={}", self.origin, self.key, self.value)
    }
}

impl Problem {
    pub(super) fn invalid(setting: &Setting, allowed: impl Into<String>) -> Self {
        Self::InvalidValue { said: setting.into(), allowed: allowed.into() }
    }

    pub(super) fn refused(setting: &Setting, reason: impl Into<String>, cure: impl Into<String>) -> Self {
        Self::Refused { said: setting.into(), reason: reason.into(), cure: cure.into() }
    }

    pub(super) fn unknown(setting: &Setting, nearest: Option<String>) -> Self {
        Self::UnknownKey { said: setting.into(), nearest }
    }

    /// What to write instead.
    #[must_use]
    pub(crate) fn cure(&self) -> Option<String> {
        match self {
            Self::UnknownKey { said, nearest } if is_ours(&said.key) => meant(nearest.as_deref()),
            Self::UnknownKey { said, nearest } => {
                let removed = format!("remove {}: Debezium 3.7 does not know it either", said.key);
                Some(match meant(nearest.as_deref()) {
                    Some(meant) => format!("{meant} If not, {removed}"),
                    None => removed,
                })
            }
            Self::UnknownVariable { nearest, .. } => meant(nearest.as_deref()),
            Self::Refused { cure, .. } => Some(cure.clone()),
            Self::Missing { lines, .. } => Some(format!("add\n  {}", lines.replace('\n', "\n  "))),
            Self::Override(_) => Some("-X slot.name=outbox".to_owned()),
            Self::Unreadable { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Some("-c takes a file that is there; outboxd init writes one".to_owned())
            }
            Self::Json { .. } => Some(
                "correct the file at that place: it is read as JSON, because its name ends in .json or it begins with {".to_owned(),
            ),
            Self::Unreadable { .. } | Self::Properties { .. } | Self::InvalidValue { .. } => None,
            Self::Placeholder { source, .. } => source.cure(),
        }
    }
}
