//! A configuration while it is read: all mistakes are kept, and told together at the end.

use super::error::{ConfigError, Problem};
use super::layers::Dialect;
use super::load::Config;
use crate::connect::{OptionError, OptionReader, Refused};

/// A configuration, and what was found to be wrong with it.
#[derive(Debug)]
pub(crate) struct Draft {
    config: Config,
    dialect: Dialect,
    problems: Vec<Problem>,
}

impl Draft {
    pub(super) const fn new(config: Config, dialect: Dialect, problems: Vec<Problem>) -> Self {
        Self { config, dialect, problems }
    }

    /// The configuration, as far as it is right.
    #[must_use]
    pub(crate) const fn config(&self) -> &Config {
        &self.config
    }

    /// Reads options of another module. They are those that begin with `prefix`, which the module does not name.
    ///
    /// # Errors
    /// When one of them was refused; its mistake is kept.
    pub(crate) fn section<T>(
        &mut self,
        prefix: &str,
        read: impl FnOnce(&mut OptionReader<'_>) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let settings = &self.config.settings;
        let lookup = |key: &str| settings.value(&format!("{prefix}{key}")).map(str::to_owned);
        let mut options = OptionReader::new(&lookup);
        let value = read(&mut options);
        for OptionError { key, value, reason } in options.into_errors() {
            self.refuse(OptionError { key: format!("{prefix}{key}"), value, reason });
        }
        value
    }

    /// Keeps the mistake of an option, named by its whole key. A mistake that is known already is not told twice.
    pub(crate) fn refuse(&mut self, error: OptionError) -> Refused {
        let problem = self.problem(&error);
        let told = problem.to_string();
        if self.problems.iter().all(|known| known.to_string() != told) {
            self.problems.push(problem);
        }
        Refused(error)
    }

    /// What was made of the options, or its mistake is kept.
    ///
    /// # Errors
    /// When it could not be made.
    pub(crate) fn keep<T>(&mut self, made: Result<T, OptionError>) -> Result<T, Refused> {
        made.map_err(|error| self.refuse(error))
    }

    /// The configuration and what was made of it, when nothing is wrong.
    ///
    /// # Errors
    /// Every mistake that was found, together.
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
