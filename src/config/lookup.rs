//! What the options of other modules are read from.

use super::load::Config;
use super::settings::Settings;

impl Config {
    /// Everything that was said, for `config show`; secrets are masked when it is printed.
    #[must_use]
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// An option by its whole key, such as `value.converter.schemas.enable`.
    #[must_use]
    pub(crate) fn option(&self, key: &str) -> Option<String> {
        self.settings.value(key).map(str::to_owned)
    }

    /// What stands before the EventRouter's options: `transforms.<alias>.`.
    #[must_use]
    pub(crate) fn transform_prefix(&self) -> String {
        format!("transforms.{}.", self.transforms.router.as_deref().unwrap_or_default())
    }

    /// Whether rows become change events: there is no EventRouter.
    #[must_use]
    pub(crate) fn sends_changes(&self) -> bool {
        self.transforms.router.is_none()
    }

    /// What stands before the options of `DecodeLogicalDecodingMessageContent`, when it is among the transforms.
    #[must_use]
    pub(crate) fn decoder_prefix(&self) -> Option<String> {
        self.transforms.decoder.as_ref().map(|alias| format!("transforms.{alias}."))
    }
}
