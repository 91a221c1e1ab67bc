use crate::error::{Class, Diagnose};

/// An option whose value cannot be worked with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}={value}: {reason}")]
pub struct OptionError {
    /// The option's key, as its module names it.
    pub key: String,
    /// What was given.
    pub value: String,
    /// Why it cannot be used, with what can.
    pub reason: String,
}

/// What cannot be made, as an option that it needs was refused. The reader of the options keeps the error too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub OptionError);

/// Reads options, and keeps what is wrong with them, so that all mistakes can be told at once. What is wrong counts as
/// not given, so that reading goes on.
pub struct OptionReader<'l> {
    lookup: Lookup<'l>,
    errors: Vec<OptionError>,
}

/// Where option values come from: a key as its module names it, the text the user gave for it.
pub(crate) type Lookup<'l> = &'l dyn Fn(&str) -> Option<String>;

impl OptionError {
    pub(crate) fn new(key: impl Into<String>, value: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { key: key.into(), value: value.into(), reason: reason.into() }
    }
}

impl Diagnose for OptionError {
    fn class(&self) -> Class {
        Class::Config
    }
}

/// The candidate that resembles a word most, if any resembles it at all.
#[cfg(feature = "io")]
pub(crate) fn closest(word: &str, candidates: impl Iterator<Item = String>) -> Option<String> {
    const ALIKE: f64 = 0.6;
    let word = word.to_lowercase();
    let score = |candidate: &str| strsim::normalized_damerau_levenshtein(&word, &candidate.to_lowercase());
    let scored = candidates.map(|candidate| (score(&candidate), candidate));
    let best = scored.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (best.0 >= ALIKE).then_some(best.1)
}

impl<'l> OptionReader<'l> {
    /// A reader of what `lookup` gives for each key.
    #[must_use]
    pub const fn new(lookup: &'l dyn Fn(&str) -> Option<String>) -> Self {
        Self { lookup, errors: Vec::new() }
    }

    /// Every mistake that was found, in the order in which the options were read.
    #[must_use]
    pub fn into_errors(self) -> Vec<OptionError> {
        self.errors
    }

    /// Reads one thing alone, for those who need no more than its first mistake.
    pub(crate) fn alone<T>(
        lookup: Lookup<'_>,
        read: impl FnOnce(&mut OptionReader<'_>) -> Result<T, Refused>,
    ) -> Result<T, OptionError> {
        let mut options = OptionReader::new(lookup);
        let outcome = read(&mut options);
        match options.errors.into_iter().next() {
            Some(first) => Err(first),
            None => outcome.map_err(|Refused(error)| error),
        }
    }

    /// The text of an option, as it was given.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        (self.lookup)(key)
    }

    /// The text, unless it is blank.
    pub(crate) fn filled(&self, key: &str) -> Option<String> {
        self.text(key).filter(|text| !text.trim().is_empty())
    }

    /// Keeps a mistake.
    pub(crate) fn refuse(
        &mut self,
        key: impl Into<String>,
        value: impl Into<String>,
        reason: impl Into<String>,
    ) -> Refused {
        let error = OptionError::new(key, value, reason);
        self.errors.push(error.clone());
        Refused(error)
    }

    /// What was made, or its mistake is kept.
    pub(crate) fn keep<T>(&mut self, made: Result<T, OptionError>) -> Result<T, Refused> {
        made.map_err(|error| {
            self.errors.push(error.clone());
            Refused(error)
        })
    }

    /// A boolean as Debezium and Connect accept it: `true` or `false`, in any case.
    pub(crate) fn boolean(&mut self, key: &str, default: bool) -> bool {
        let Some(text) = self.text(key) else { return default };
        match text.trim().to_ascii_lowercase().as_str() {
            "true" => true,
            "false" => false,
            _ => {
                self.refuse(key, text, "it must be true or false");
                default
            }
        }
    }

    /// One of several names, in any case.
    pub(crate) fn one_of<T: Copy>(&mut self, key: &str, names: &[(&'static str, T)], default: T) -> T {
        let Some(text) = self.text(key) else { return default };
        let wanted = text.trim();
        if let Some((_, value)) = names.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)) {
            return *value;
        }
        let all: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        self.refuse(key, text, format!("it must be one of {}", all.join(", ")));
        default
    }
}

impl std::fmt::Debug for OptionReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OptionReader").field("errors", &self.errors).finish_non_exhaustive()
    }
}
