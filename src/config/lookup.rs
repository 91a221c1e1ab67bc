//! What the router's and the converters' own options are read from, and the errors of what they cannot take.

use super::error::{ConfigError, Problem};
use super::load::Config;
use super::settings::Settings;
use crate::connect::OptionError;

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

    /// An option by its whole key, such as `value.converter.schemas.enable`.
    #[must_use]
    pub fn option(&self, key: &str) -> Option<String> {
        self.settings.value(key).map(str::to_owned)
    }

    /// The error of an EventRouter option that the router cannot take.
    #[must_use]
    pub fn transform_error(&self, option: &str, reason: &str) -> ConfigError {
        self.option_error(&self.transform_key(option), reason)
    }

    /// What stands before the EventRouter's options: `transforms.<alias>.`.
    #[must_use]
    pub fn transform_prefix(&self) -> String {
        format!("transforms.{}.", self.transforms.router)
    }

    /// What stands before the options of `DecodeLogicalDecodingMessageContent`, when it is among the transforms.
    #[must_use]
    pub fn decoder_prefix(&self) -> Option<String> {
        self.transforms.decoder.as_ref().map(|alias| format!("transforms.{alias}."))
    }

    fn transform_key(&self, option: &str) -> String {
        format!("{}{option}", self.transform_prefix())
    }

    /// The error of an option that its module cannot take; it tells where the option was set.
    #[must_use]
    pub fn refuse(&self, error: &OptionError) -> ConfigError {
        self.option_error(&error.key, &error.reason)
    }

    /// The error of an option, by its whole key, that its module cannot take; it tells where the option was set.
    #[must_use]
    pub fn option_error(&self, key: &str, reason: &str) -> ConfigError {
        match self.settings.get(key) {
            Some(setting) => Problem::invalid(setting, reason).into(),
            None => {
                Problem::Missing { key: key.into(), reason: reason.into(), lines: format!("{key}=…") }.into()
            }
        }
    }
}
