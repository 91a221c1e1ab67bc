//! A configuration without its secrets, to be shown and to be written in another form.

use super::error::{ConfigError, Problem};
use super::known::defaults;
use super::source::environment;
use super::source::environment::Variable;
use super::source::layers;
use super::source::layers::{Dialect, Layers, Sources};
use super::source::settings::{MASK, Settings, shown_key};
use super::source::spelling;
use crate::secret::Secret;

/// Prefixes of Connect's config providers, which every form of a configuration can use.
const PROVIDERS: [&str; 3] = ["${env:", "${file:", "${dir:"];

/// Merged settings of the sources, as far as they can be read.
#[derive(Debug)]
pub(crate) struct ShownConfig {
    /// Settings, in the order of the keys.
    pub(crate) settings: Vec<ShownSetting>,
    /// Key and value of each default in force, in the order of the keys.
    pub(crate) defaults: Vec<(String, String)>,
    /// Key and source of each value that could not be read, in the order of the keys.
    pub(crate) unread: Vec<(String, String)>,
    /// Values that are masked, so that other texts can be masked too.
    pub(crate) secrets: Vec<Secret>,
    /// Mistakes that were found while the sources were read.
    pub(crate) problems: Vec<Problem>,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShownSetting {
    /// Key in a connector's JSON; a salt in it is masked.
    pub(crate) key: String,
    /// Value, masked if it is a secret.
    pub(crate) shown: String,
    /// Source of the value.
    pub(crate) source: String,
    /// Value for another form of the configuration.
    pub(crate) portable: Portable,
}

/// A value as another form of the configuration can contain it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Portable {
    /// The value itself.
    Plain(String),
    /// The text with the placeholder that was read.
    Placeholder(String),
    /// Name of a variable that the user sets: the value is a secret.
    Variable(String),
    /// Nothing, because the key contains a secret.
    Hidden,
}

impl ShownConfig {
    /// Reads the sources, without a check that the configuration can work.
    ///
    /// # Errors
    /// Returns an error when a file cannot be read.
    pub(crate) fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let Layers { mut settings, dialect, problems, said, unread, .. } = layers::collect(sources)?;
        name_as_the_server_does(&mut settings, dialect);
        let mut defaults = defaults::unsaid(&settings, dialect);
        defaults.retain(|(key, _)| !unread.contains_key(key));
        defaults.sort();
        let unread_shown = unread.iter().map(|(key, origin)| (shown_key(key), origin.to_string())).collect();
        let hidden = settings.iter().filter(|(_, setting)| setting.secret);
        let secrets = hidden.map(|(_, setting)| Secret::new(setting.value.clone())).collect();
        let settings = settings
            .iter()
            .map(|(key, setting)| {
                let raw = said.get(key).filter(|raw| PROVIDERS.iter().any(|provider| raw.contains(provider)));
                let portable = match (setting.secret, raw) {
                    _ if shown_key(key) != key => Portable::Hidden,
                    (_, Some(raw)) => Portable::Placeholder(raw.clone()),
                    (false, None) => Portable::Plain(setting.value.clone()),
                    (true, None) => Portable::Variable(environment::own_name(key)),
                };
                let shown = if setting.secret { MASK.to_owned() } else { setting.value.clone() };
                ShownSetting { key: shown_key(key), shown, source: setting.origin.to_string(), portable }
            })
            .collect();
        Ok(Self { settings, defaults, unread: unread_shown, secrets, problems })
    }
}

/// Sets the name that Debezium Server gives to every connector. Other forms of a configuration must contain it.
fn name_as_the_server_does(settings: &mut Settings, dialect: Dialect) {
    if dialect == Dialect::Server && settings.get("name").is_none() {
        settings.insert_server_default("name", "kafka");
    }
}

impl ShownSetting {
    /// Returns the key in a connector's configuration; `None` for keys that only Debezium Server has.
    pub(crate) fn connector_key(&self) -> Option<String> {
        spelling::connector_key(&self.key)
    }

    /// Returns key and value for Debezium Server's `application.properties`; `None` for a converter without a format
    /// name there. `${NAME}` is a variable in that file, so `${` in any other value is escaped.
    pub(crate) fn server_line(&self, value: &str, is_placeholder: bool) -> Option<(String, String)> {
        let key = spelling::server_key(&self.key);
        if spelling::is_format(&key) {
            return Some((key, spelling::format_name(value)?.to_owned()));
        }
        let value = if is_placeholder { value.replace("${env:", "${") } else { value.replace("${", "$${") };
        Some((key, value))
    }

    /// Returns the name of the variable that sets this key, if that name maps back to the key.
    pub(crate) fn variable(&self, aliases: &[String]) -> Option<String> {
        let name = environment::own_name(&self.key);
        let leads_back = match environment::variable(&name, "", aliases) {
            Variable::Key(key) => spelling::canonical(&key) == [self.key.clone()],
            Variable::Foreign | Variable::Unknown { .. } => false,
        };
        leads_back.then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(settings: &[&str]) -> ShownConfig {
        let overrides = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let environment = vec![("HOME_OF_SECRETS".to_owned(), "s3cret".to_owned())];
        ShownConfig::load(&Sources { overrides, environment, files: Vec::new() }).unwrap()
    }

    #[test]
    fn no_secret_is_shown_and_each_can_be_written_down() {
        let config = load(&[
            "slot.name=orders",
            "database.password=s3cret",
            "database.user=${env:HOME_OF_SECRETS}",
            "column.mask.hash.SHA-256.with.salt.s3cret=public.a.b",
        ]);
        assert!(!format!("{config:?}").contains("s3cret"), "{config:?}");
        let portable: Vec<_> =
            config.settings.iter().map(|setting| (setting.key.as_str(), setting.portable.clone())).collect();
        let expected = [
            ("column.mask.hash.SHA-256.with.salt.********", Portable::Hidden),
            ("database.password", Portable::Variable("OUTBOXD_DATABASE_PASSWORD".to_owned())),
            ("database.user", Portable::Placeholder("${env:HOME_OF_SECRETS}".to_owned())),
            ("slot.name", Portable::Plain("orders".to_owned())),
        ];
        assert_eq!(portable, expected);
    }

    #[test]
    fn an_unreadable_value_hides_the_one_before() {
        let config = load(&["slot.name=a", "slot.name=${env:NOPE}", "name=${env:NOPE}", "name=b"]);
        assert_eq!(config.unread, [("slot.name".to_owned(), "-X".to_owned())]);
        assert!(config.settings.iter().any(|setting| setting.key == "name" && setting.shown == "b"));
        assert!(!config.defaults.iter().any(|(key, _)| key == "slot.name"));
    }

    #[test]
    fn a_variable_leads_back_to_its_key() {
        let config = load(&["slot.name=orders", "transforms.myOutbox.route.by.field=a", "no.such.key=b"]);
        let aliases = ["myOutbox".to_owned()];
        let variables: Vec<_> = config.settings.iter().map(|setting| setting.variable(&aliases)).collect();
        let expected = [None, Some("OUTBOXD_SLOT_NAME"), Some("OUTBOXD_TRANSFORMS_MYOUTBOX_ROUTE_BY_FIELD")];
        assert_eq!(variables, expected.map(|name| name.map(str::to_owned)));
    }
}
