//! Access to the settings for the options of other modules.

use super::settings::Settings;
use crate::config::load::Config;

impl Config {
    /// Returns every setting, for `config show`. Secrets are masked when it is printed.
    #[must_use]
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns an option by its whole key, such as `value.converter.schemas.enable`.
    #[must_use]
    pub(crate) fn option(&self, key: &str) -> Option<String> {
        self.settings.value(key).map(str::to_owned)
    }

    /// Returns the prefix of the EventRouter's options: `transforms.<alias>.`.
    #[must_use]
    pub(crate) fn transform_prefix(&self) -> String {
        format!("transforms.{}.", self.transforms.router.as_deref().unwrap_or_default())
    }

    /// Returns whether rows become change events: there is no EventRouter.
    #[must_use]
    pub(crate) fn sends_changes(&self) -> bool {
        self.transforms.router.is_none()
    }

    /// Returns the prefix of the options of `DecodeLogicalDecodingMessageContent`, if it is among the transforms.
    #[must_use]
    pub(crate) fn decoder_prefix(&self) -> Option<String> {
        self.transforms.decoder.as_ref().map(|alias| format!("transforms.{alias}."))
    }
}
