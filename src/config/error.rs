//! Mistakes in a configuration, reported together.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::{Diagnose, Diagnosis, Exit};

use super::source::document::DocumentError;
use super::source::document::yaml::YamlError;
use super::source::placeholder::PlaceholderError;
use super::source::settings::{Origin, Setting};

/// Mistakes found in a configuration, at least one.
#[derive(Debug)]
pub(crate) struct ConfigError {
    first: Problem,
    others: Vec<Problem>,
}

impl ConfigError {
    /// Returns the error of these mistakes; `None` if there are none.
    pub(crate) fn of(problems: Vec<Problem>) -> Option<Self> {
        let mut problems = problems.into_iter();
        let first = problems.next()?;
        Some(Self { first, others: problems.collect() })
    }

    /// Returns the mistakes one by one.
    pub(crate) fn into_problems(self) -> Vec<Problem> {
        std::iter::once(self.first).chain(self.others).collect()
    }

    /// Returns every mistake, in the order in which they were found.
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
    fn diagnosis(&self) -> Diagnosis {
        let mut fixes: Vec<_> = self.problems().filter_map(Problem::fix).collect();
        fixes.dedup();
        let joined = (!fixes.is_empty()).then(|| fixes.join("\n"));
        // A supervisor does not start a wrong configuration again.
        let diagnosis = match self.problems().all(Problem::passes) {
            true => Diagnosis::transient(Exit::Failed),
            false => Diagnosis::config(),
        };
        diagnosis.with_optional_fix(joined)
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
        /// Cause.
        source: std::io::Error,
    },
    /// A file that is no connector JSON.
    #[error("{} is not the JSON of a connector", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Position and cause.
        source: serde_json::Error,
    },
    /// A file that is no YAML.
    #[error("{} cannot be read as YAML", path.display())]
    Yaml {
        /// The file.
        path: PathBuf,
        /// Position and cause.
        source: Box<YamlError>,
        /// True for the template of a Helm chart.
        is_template: bool,
    },
    /// A file in a known format, without a configuration in it.
    #[error("{}{}", path.display(), shown_line(source.line))]
    Document {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: Box<DocumentError>,
    },
    /// A file of which no connector, or more than one, is meant.
    #[error("{}", shown_choice(path, wanted.as_deref(), names))]
    Connectors {
        /// The file.
        path: PathBuf,
        /// Name that was given.
        wanted: Option<String>,
        /// Names in the file.
        names: Vec<String>,
    },
    /// A file that is no properties file.
    #[error("{} is not a properties file", path.display())]
    Properties {
        /// The file.
        path: PathBuf,
        /// Position and cause.
        source: java_properties::PropertiesError,
    },
    /// `-X` without a key and a value.
    #[error("-X takes key=value, not {0:?}")]
    Override(String),
    /// A key that is not in the tables.
    #[error("{}: unknown key {:?}", said.origin, said.key)]
    UnknownKey {
        /// Key and value as they were written.
        said: Box<GivenSetting>,
        /// Most similar known key, if there is one.
        nearest: Option<String>,
    },
    /// A variable with one of outboxd's prefixes that is no key.
    #[error("environment variable {name} is not a known key")]
    UnknownVariable {
        /// Its name.
        name: String,
        /// Most similar known variable, if there is one.
        nearest: Option<String>,
    },
    /// A value that its key does not accept.
    #[error("{said} is not allowed: {allowed}")]
    InvalidValue {
        /// Key and value as they were written.
        said: Box<GivenSetting>,
        /// Allowed values.
        allowed: String,
    },
    /// A value that Debezium accepts and outboxd refuses, because records would be lost or changed.
    #[error("{said} is refused: {reason}")]
    Refused {
        /// Key and value as they were written.
        said: Box<GivenSetting>,
        /// Cause.
        reason: String,
        /// Fix.
        fix: String,
    },
    /// A required key that is not set.
    #[error("{key} is missing: {reason}")]
    Missing {
        /// The key.
        key: String,
        /// Purpose of the key.
        reason: String,
        /// The lines to add.
        lines: String,
    },
    /// A placeholder that cannot be resolved.
    #[error("{}: the placeholder in {} cannot be resolved", said.origin, said.key)]
    Placeholder {
        /// Key and value as they were written.
        said: Box<GivenSetting>,
        /// Cause.
        source: PlaceholderError,
    },
}

fn shown_line(line: Option<usize>) -> String {
    line.map(|line| format!(":{line}")).unwrap_or_default()
}

fn shown_choice(path: &Path, wanted: Option<&str>, names: &[String]) -> String {
    let path = path.display();
    let list = names.iter().map(|name| if name.is_empty() { "(without a name)" } else { name });
    let list = list.collect::<Vec<_>>().join(", ");
    match wanted {
        Some(wanted) if names.iter().any(|name| name == wanted) => {
            format!("{path} has more than one connector {wanted:?}")
        }
        Some(wanted) => format!("{path} has no connector {wanted:?}, but {list}"),
        None => format!("{path} has {} connectors: {list}", names.len()),
    }
}

/// Returns whether a key is read by outboxd or by a Kafka client, and not by Debezium.
fn is_ours(key: &str) -> bool {
    ["outboxd.", "rdkafka."].iter().any(|prefix| key.starts_with(prefix)) || key.contains("producer.")
}

fn meant(nearest: Option<&str>) -> Option<String> {
    nearest.map(|nearest| format!("did you mean {nearest}?"))
}

/// Key and value of a setting, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenSetting {
    /// The key, as it was written.
    pub key: String,
    /// Source of the value.
    pub origin: Origin,
    /// The value, masked if it is a secret.
    pub value: String,
}

impl From<&Setting> for Box<GivenSetting> {
    fn from(setting: &Setting) -> Self {
        let (key, origin) = (setting.shown_key(), setting.origin.clone());
        Self::new(GivenSetting { key, origin, value: setting.to_string() })
    }
}

impl fmt::Display for GivenSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}={}", self.origin, self.key, self.value)
    }
}

impl Problem {
    pub(super) fn invalid(setting: &Setting, allowed: impl Into<String>) -> Self {
        Self::InvalidValue { said: setting.into(), allowed: allowed.into() }
    }

    pub(super) fn refused(setting: &Setting, reason: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Refused { said: setting.into(), reason: reason.into(), fix: fix.into() }
    }

    pub(super) fn unknown(setting: &Setting, nearest: Option<String>) -> Self {
        Self::UnknownKey { said: setting.into(), nearest }
    }

    /// Returns whether the same configuration may be read later.
    const fn passes(&self) -> bool {
        matches!(self, Self::Placeholder { source: PlaceholderError::Vault(error), .. } if error.passes())
    }

    /// Returns the fix, if one is known.
    #[must_use]
    pub(crate) fn fix(&self) -> Option<String> {
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
            Self::Refused { fix, .. } => Some(fix.clone()),
            Self::Missing { lines, .. } => Some(format!("add\n  {}", lines.replace('\n', "\n  "))),
            Self::Override(_) => Some("-X slot.name=outbox".to_owned()),
            Self::Unreadable { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Some("-c takes a file that is there; outboxd init writes one".to_owned())
            }
            Self::Json { .. } => Some(
                "correct the file at that place: it is read as JSON, because its name ends in .json or it begins with {".to_owned(),
            ),
            Self::Yaml { is_template: true, .. } => {
                Some("render the template first: helm template CHART > FILE".to_owned())
            }
            Self::Yaml { .. } => Some("correct the file at that place".to_owned()),
            Self::Document { source, .. } => source.fix.clone(),
            Self::Connectors { path, names, .. } => {
                let name = names.iter().find(|name| !name.is_empty())?;
                Some(format!("-c '{}#{name}'", path.display()))
            }
            Self::Unreadable { .. } | Self::Properties { .. } | Self::InvalidValue { .. } => None,
            Self::Placeholder { source, .. } => source.fix(),
        }
    }
}
