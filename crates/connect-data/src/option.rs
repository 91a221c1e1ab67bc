//! Reader of options that reports all errors at once.

/// An option with an invalid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}={value}: {reason}")]
pub struct OptionError {
    /// Key of the option, as its module names it.
    pub key: String,
    /// Configured value.
    pub value: String,
    /// Reason why the value is invalid, with the valid values.
    pub reason: String,
}

/// A result that is missing because an option was invalid. The reader of the options has recorded the error too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub OptionError);

/// Reader of options that records errors, so that all of them can be reported at once. An invalid option counts as not
/// set, and reading continues.
pub struct OptionReader<'l> {
    lookup: Lookup<'l>,
    errors: Vec<OptionError>,
}

/// Source of option values: maps a key, as its module names it, to the configured text.
pub type Lookup<'l> = &'l dyn Fn(&str) -> Option<String>;

impl OptionError {
    /// Returns the error of one option.
    pub fn new(key: impl Into<String>, value: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { key: key.into(), value: value.into(), reason: reason.into() }
    }
}

/// Returns the candidate that is most similar to a word, if any is similar enough.
pub fn closest(word: &str, candidates: impl Iterator<Item = String>) -> Option<String> {
    let word = word.to_lowercase();
    let letters = Letters::of(&word);
    let scored = candidates.filter_map(|candidate| {
        let lower = candidate.to_lowercase();
        // The comparison takes the product of both lengths: a wrong file has thousands of keys, or one of 100 kB.
        let may_be = letters.likeness_max(&Letters::of(&lower)) >= ALIKE;
        may_be.then(|| (strsim::normalized_damerau_levenshtein(&word, &lower), candidate))
    });
    let best = scored.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (best.0 >= ALIKE).then_some(best.1)
}

/// Least likeness of a suggestion, from 0 to 1.
const ALIKE: f64 = 0.6;

/// Counts of a word's characters, by classes of characters.
struct Letters([u32; 64]);

impl Letters {
    fn of(word: &str) -> Self {
        let mut counts = [0_u32; 64];
        for letter in word.chars() {
            let class = usize::try_from(u32::from(letter) % 64).unwrap_or_default();
            if let Some(count) = counts.get_mut(class) {
                *count = count.saturating_add(1);
            }
        }
        Self(counts)
    }

    /// Returns an upper bound of the likeness of two words: each edit fixes at most one surplus character and one
    /// missing character.
    fn likeness_max(&self, other: &Self) -> f64 {
        let pairs = || self.0.iter().zip(&other.0);
        let surplus: u32 = pairs().map(|(own, other)| own.saturating_sub(*other)).sum();
        let lack: u32 = pairs().map(|(own, other)| other.saturating_sub(*own)).sum();
        let longest = self.0.iter().sum::<u32>().max(other.0.iter().sum());
        if longest == 0 { 1.0 } else { 1.0 - f64::from(surplus.max(lack)) / f64::from(longest) }
    }
}

impl<'l> OptionReader<'l> {
    /// Returns a reader of the values that `lookup` returns.
    #[must_use]
    pub const fn new(lookup: &'l dyn Fn(&str) -> Option<String>) -> Self {
        Self { lookup, errors: Vec::new() }
    }

    /// Returns all errors, in the order in which the options were read.
    #[must_use]
    pub fn into_errors(self) -> Vec<OptionError> {
        self.errors
    }

    /// Reads with a reader of its own, for callers that need only the first error.
    ///
    /// # Errors
    /// The first error.
    pub fn alone<T>(
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

    /// Returns the configured text of an option.
    pub fn text(&self, key: &str) -> Option<String> {
        (self.lookup)(key)
    }

    /// Returns the text, unless it is blank.
    pub fn filled(&self, key: &str) -> Option<String> {
        self.text(key).filter(|text| !text.trim().is_empty())
    }

    /// Records an error, and returns it as [`Refused`].
    pub fn refuse(
        &mut self,
        key: impl Into<String>,
        value: impl Into<String>,
        reason: impl Into<String>,
    ) -> Refused {
        let error = OptionError::new(key, value, reason);
        self.errors.push(error.clone());
        Refused(error)
    }

    /// Returns the value of a result, or records its error.
    ///
    /// # Errors
    /// When the result is an error.
    pub fn keep<T>(&mut self, made: Result<T, OptionError>) -> Result<T, Refused> {
        made.map_err(|error| {
            self.errors.push(error.clone());
            Refused(error)
        })
    }

    /// Reads a boolean as Debezium and Connect accept it: `true` or `false`, in any case.
    pub fn boolean(&mut self, key: &str, default: bool) -> bool {
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

    /// Reads one of several names, in any case.
    pub fn one_of<T: Copy>(&mut self, key: &str, names: &[(&'static str, T)], default: T) -> T {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_word_that_is_far_too_long_is_compared_with_nothing() {
        let candidates = || (0..2_000).map(|number| format!("table.field.event.{number}"));
        // Compared in full, this would take minutes.
        assert_eq!(closest(&"x".repeat(100_000), candidates()), None);
        assert_eq!(closest("table.field.evnt.7", candidates()).as_deref(), Some("table.field.event.7"));
    }

    proptest! {
        #[test]
        fn no_likely_word_is_missing(word in "[a-dé.]{0,12}", other in "[a-dé.]{0,12}") {
            let likeness = strsim::normalized_damerau_levenshtein(&word, &other);
            let most = Letters::of(&word).likeness_max(&Letters::of(&other));
            prop_assert!(likeness <= most + f64::EPSILON, "{likeness} {most}");
        }
    }
}
