//! Options of one transform or predicate.

use crate::{NameAdjustment, OptionReader, Refused};

/// Options of one transform or predicate: those below `transforms.NAME.` or `predicates.NAME.`.
pub(crate) struct Settings<'r, 'l> {
    options: &'r mut OptionReader<'l>,
    prefix: String,
}

impl<'r, 'l> Settings<'r, 'l> {
    pub(crate) const fn new(options: &'r mut OptionReader<'l>, prefix: String) -> Self {
        Self { options, prefix }
    }

    /// Returns the full key of an option.
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    /// Returns the text of an option, unless it is empty.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.options.text(&self.key(name)).filter(|text| !text.is_empty())
    }

    /// Returns the text of an option, even an empty one.
    pub(super) fn raw(&self, name: &str) -> Option<String> {
        self.options.text(&self.key(name))
    }

    /// Returns the text of one of the connector's own options, unless it is blank.
    pub(super) fn of_connector(&self, key: &str) -> Option<String> {
        self.options.filled(key)
    }

    /// Returns the text of a required option.
    pub(super) fn required(&mut self, name: &str) -> Result<String, Refused> {
        match self.options.filled(&self.key(name)) {
            Some(text) => Ok(text),
            None => Err(self.refuse(name, "it must be given")),
        }
    }

    /// Returns the texts of a comma-separated list, without empty ones.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let text = self.options.filled(&self.key(name)).unwrap_or_default();
        let parts = text.split(',').map(|part| part.trim().to_owned());
        parts.filter(|part| !part.is_empty()).collect()
    }

    /// Returns the texts of a comma-separated list that needs at least one.
    pub(super) fn required_list(&mut self, name: &str) -> Result<Vec<String>, Refused> {
        let list = self.list(name);
        if list.is_empty() { Err(self.refuse(name, "it must be given")) } else { Ok(list) }
    }

    pub(super) fn boolean(&mut self, name: &str, default: bool) -> bool {
        let key = self.key(name);
        self.options.boolean(&key, default)
    }

    pub(super) fn one_of<T: Copy>(&mut self, name: &str, names: &[(&'static str, T)], default: T) -> T {
        let key = self.key(name);
        self.options.one_of(&key, names, default)
    }

    /// Returns the value of one of several names; there is no default.
    pub(super) fn required_one_of<T: Copy>(
        &mut self,
        name: &str,
        names: &[(&'static str, T)],
    ) -> Result<T, Refused> {
        let text = self.required(name)?;
        match names.iter().find(|(known, _)| known.eq_ignore_ascii_case(text.trim())) {
            Some((_, value)) => Ok(*value),
            None => {
                let all: Vec<&str> = names.iter().map(|(known, _)| *known).collect();
                Err(self.refuse(name, format!("it must be one of {}", all.join(", "))))
            }
        }
    }

    pub(super) fn name_adjustment(&mut self, name: &str) -> NameAdjustment {
        let key = self.key(name);
        NameAdjustment::read(self.options, &key)
    }

    /// Parses a number; none when the option is missing or blank.
    pub(super) fn number<T: std::str::FromStr>(&mut self, name: &str) -> Result<Option<T>, Refused> {
        let Some(text) = self.options.filled(&self.key(name)) else { return Ok(None) };
        match text.trim().parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(self.refuse(name, "it must be a number, and not too large a one")),
        }
    }

    /// Stores a mistake in an option, and returns it as an error.
    pub(super) fn refuse(&mut self, name: &str, reason: impl Into<String>) -> Refused {
        let key = self.key(name);
        let given = self.options.text(&key).unwrap_or_default();
        self.options.refuse(key, given, reason)
    }
}
