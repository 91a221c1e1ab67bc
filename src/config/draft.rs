//! A configuration while it is read: all mistakes are collected, and reported together at the end.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::error::{ConfigError, Problem};
use super::known::check;
use super::known::keys::{Status, lookup};
use super::load::Config;
use super::notice::Notice;
use super::source::layers::Dialect;
use crate::connect::option::closest;
use crate::connect::{OptionError, OptionReader, Refused};

/// A configuration, and the mistakes found in it.
#[derive(Debug)]
pub(crate) struct Draft {
    config: Config,
    dialect: Dialect,
    problems: Vec<Problem>,
    /// Keys that sections have looked up.
    asked: BTreeSet<String>,
}

/// Common options of Connect's converters. They are not reported where outboxd does not read them.
const CONVERTERS_OWN: [&str; 3] = ["converter.type", "schemas.cache.size", "schemas.enable"];

impl Draft {
    pub(super) const fn new(config: Config, dialect: Dialect, problems: Vec<Problem>) -> Self {
        Self { config, dialect, problems, asked: BTreeSet::new() }
    }

    /// Returns the draft without the mistakes found so far, for a caller that needs another part of it.
    #[must_use]
    pub(crate) fn pardoned(self) -> Self {
        Self { problems: Vec::new(), ..self }
    }

    /// Returns the configuration, as far as it is valid.
    #[must_use]
    pub(crate) const fn config(&self) -> &Config {
        &self.config
    }

    /// Reads options of another module: those whose keys begin with `prefix`, which the module itself does not name.
    ///
    /// # Errors
    /// Returns an error when an option is refused; its mistake is recorded.
    pub(crate) fn section<T>(
        &mut self,
        prefix: &str,
        read: impl FnOnce(&mut OptionReader<'_>) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let settings = &self.config.settings;
        let asked = RefCell::new(&mut self.asked);
        let lookup = |key: &str| {
            let key = format!("{prefix}{key}");
            let value = settings.value(&key).map(str::to_owned);
            asked.borrow_mut().insert(key);
            value
        };
        let mut options = OptionReader::new(&lookup);
        let value = read(&mut options);
        let mistakes = options.into_errors();
        for OptionError { key, value, reason } in mistakes {
            self.refuse(OptionError { key: format!("{prefix}{key}"), value, reason });
        }
        value
    }

    /// Adds notices about options below the key of a converter that it has not looked up. Connect ignores them too, and
    /// one of them may be a typing mistake.
    pub(crate) fn note_unasked(&mut self, converter: &str) {
        let below = format!("{converter}.");
        let asked = || self.asked.iter().filter(|key| key.starts_with(&below)).cloned();
        let is_known = |key: &str| {
            self.asked.contains(key) || CONVERTERS_OWN.iter().any(|own| key.ends_with(&format!(".{own}")))
        };
        let unasked =
            self.config.settings.iter().filter(|(key, _)| key.starts_with(&below) && !is_known(key));
        let notices: Vec<_> = unasked
            .filter(|(key, _)| lookup(key).is_some_and(|row| row.status == Status::Used))
            .map(|(key, setting)| {
                let meant = closest(key, asked()).map(|meant| format!("; did you mean {meant}?"));
                let text = format!("the converter has no such option{}", meant.unwrap_or_default());
                Notice::ignored(&setting.written, text)
            })
            .collect();
        self.config.notices.extend(notices);
    }

    /// Refuses options below the key of a transform or predicate that it has not looked up: without them the records
    /// would differ. `unused` lists options that have no effect here.
    pub(crate) fn refuse_unasked(&mut self, owner: &str, unused: &[&str]) {
        let below = format!("{owner}.");
        let asked = || self.asked.iter().filter(|key| key.starts_with(&below)).cloned();
        let is_known = |key: &str| {
            let option = key.strip_prefix(&below);
            self.asked.contains(key) || option.is_some_and(|option| unused.contains(&option))
        };
        let unasked =
            self.config.settings.iter().filter(|(key, _)| key.starts_with(&below) && !is_known(key));
        let settings = &self.config.settings;
        let problems: Vec<_> = unasked
            .filter_map(|(key, setting)| {
                if let Some(row) = lookup(key).filter(|row| row.status == Status::Renamed) {
                    return check::renamed(settings, row, key, setting);
                }
                let prefix = setting.written.strip_suffix(key).unwrap_or_default();
                let meant = closest(key, asked()).map(|meant| format!("{prefix}{meant}"));
                Some(Problem::unknown(setting, meant))
            })
            .collect();
        self.problems.extend(problems);
    }

    /// Records the mistake of an option, which is named by its whole key. The same mistake is recorded only once.
    pub(crate) fn refuse(&mut self, error: OptionError) -> Refused {
        let problem = self.problem(&error);
        let told = problem.to_string();
        if self.problems.iter().all(|known| known.to_string() != told) {
            self.problems.push(problem);
        }
        Refused(error)
    }

    /// Returns the value that was made of the options, or records its mistake.
    ///
    /// # Errors
    /// Returns an error when the value could not be made.
    pub(crate) fn keep<T>(&mut self, made: Result<T, OptionError>) -> Result<T, Refused> {
        made.map_err(|error| self.refuse(error))
    }

    /// Returns the configuration and the value that was made of it, if there is no mistake.
    ///
    /// # Errors
    /// Returns every mistake that was found, together.
    pub(crate) fn finish<T>(mut self, made: Result<T, Refused>) -> Result<(Config, T), ConfigError> {
        let problems = std::mem::take(&mut self.problems);
        match (ConfigError::of(problems), made) {
            (Some(error), _) => Err(error),
            (None, Ok(made)) => Ok((self.config, made)),
            (None, Err(Refused(error))) => Err(self.problem(&error).into()),
        }
    }

    fn problem(&self, error: &OptionError) -> Problem {
        let OptionError { key, reason, .. } = error;
        match self.config.settings.get(key) {
            Some(setting) => Problem::invalid(setting, reason),
            None => self.dialect.missing(key, reason, &[(key.as_str(), "…")]),
        }
    }
}
