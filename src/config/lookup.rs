//! What the router's and the converters' own options are read from, and the errors of what they cannot take.

use super::error::{ConfigError, Problem};
use super::load::Config;
use super::settings::Settings;

/// Which of a record's parts a converter makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConverterRole {
    /// `key.converter`.
    Key,
    /// `value.converter`.
    Value,
    /// `header.converter`.
    Header,
}

impl ConverterRole {
    fn key(self) -> &'static str {
        match self {
            Self::Key => "key.converter",
            Self::Value => "value.converter",
            Self::Header => "header.converter",
        }
    }
}

impl Config {
    /// Everything that was said, for `config show`; secrets are masked when it is printed.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// An option of the EventRouter, named without `transforms.<alias>.`.
    #[must_use]
    pub fn transform_option(&self, option: &str) -> Option<String> {
        self.settings.value(&self.transform_key(option)).map(str::to_owned)
    }

    /// The class of a converter; `None` when nothing was said.
    #[must_use]
    pub fn converter(&self, role: ConverterRole) -> Option<String> {
        self.settings.value(role.key()).map(str::to_owned)
    }

    /// An option of a converter, named without its prefix: `schemas.enable`.
    #[must_use]
    pub fn converter_option(&self, role: ConverterRole, option: &str) -> Option<String> {
        self.settings.value(&format!("{}.{option}", role.key())).map(str::to_owned)
    }

    /// The error of an EventRouter option that the router cannot take.
    #[must_use]
    pub fn transform_error(&self, option: &str, reason: &str) -> ConfigError {
        self.invalid(&self.transform_key(option), reason)
    }

    /// The error of a converter's class (`option` is `None`) or option that the converter cannot take.
    #[must_use]
    pub fn converter_error(&self, role: ConverterRole, option: Option<&str>, reason: &str) -> ConfigError {
        match option {
            Some(option) => self.invalid(&format!("{}.{option}", role.key()), reason),
            None => self.invalid(role.key(), reason),
        }
    }

    /// What stands before the EventRouter's options: `transforms.<alias>.`.
    #[must_use]
    pub fn transform_prefix(&self) -> String {
        format!("transforms.{}.", self.router)
    }

    fn transform_key(&self, option: &str) -> String {
        format!("{}{option}", self.transform_prefix())
    }

    fn invalid(&self, key: &str, reason: &str) -> ConfigError {
        match self.settings.get(key) {
            Some(setting) => Problem::invalid(setting, reason).into(),
            None => {
                Problem::Missing { key: key.into(), reason: reason.into(), lines: format!("{key}=…") }.into()
            }
        }
    }
}
