//! What the options of other modules are read from.

use super::load::Config;
use super::settings::Settings;

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
}
