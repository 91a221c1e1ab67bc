//! A configuration as it may be shown and written down again: without secrets.

use super::defaults;
use super::environment::{self, Variable};
use super::error::{ConfigError, Problem};
use super::layers::{self, Dialect, Layers, Sources};
use super::settings::{MASK, Settings, shown_key};
use super::spelling;

/// Connect's config providers, which every form of a configuration can name.
const PROVIDERS: [&str; 3] = ["${env:", "${file:", "${dir:"];

/// What the sources say together, as far as they can be read.
#[derive(Debug)]
pub(crate) struct ShownConfig {
    /// In the order of the keys.
    pub(crate) settings: Vec<ShownSetting>,
    /// Key and value of what nobody says, in the order of the keys.
    pub(crate) defaults: Vec<(String, String)>,
    /// Key and source of what could not be read, in the order of the keys.
    pub(crate) unread: Vec<(String, String)>,
    /// Why it could not.
    pub(crate) problems: Vec<Problem>,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShownSetting {
    /// The key in a connector's JSON, as it may be shown.
    pub(crate) key: String,
    /// The value, as it may be shown.
    pub(crate) shown: String,
    /// Where it was said.
    pub(crate) source: String,
    /// The same setting for another form of the configuration.
    pub(crate) portable: Portable,
}

/// How a value can be written down elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Portable {
    /// As it is.
    Plain(String),
    /// By the placeholder that was there.
    Placeholder(String),
    /// It is a secret: by a variable of this name, which the user sets.
    Variable(String),
    /// Its key holds a secret.
    Hidden,
}

impl ShownConfig {
    /// Reads the sources. Whether it can work is not looked at.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(crate) fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let Layers { mut settings, dialect, problems, said, unread, .. } = layers::collect(sources)?;
        name_as_the_server_does(&mut settings, dialect);
        let mut defaults = defaults::unsaid(&settings, dialect);
        defaults.retain(|(key, _)| !unread.contains_key(key));
        defaults.sort();
        let unread_shown = unread.iter().map(|(key, origin)| (shown_key(key), origin.to_string())).collect();
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
        Ok(Self { settings, defaults, unread: unread_shown, problems })
    }
}

/// Debezium Server calls every connector so; elsewhere that must be said.
fn name_as_the_server_does(settings: &mut Settings, dialect: Dialect) {
    if dialect == Dialect::Server && settings.get("name").is_none() {
        settings.insert_server_default("name", "kafka");
    }
}

impl ShownSetting {
    /// The key in a connector's configuration; `None` for what only Debezium Server knows.
    pub(crate) fn connector_key(&self) -> Option<String> {
        spelling::connector_key(&self.key)
    }

    /// Key and value in Debezium Server's `application.properties`; `None` for a converter that it has no word for. There `${NAME}` is
    /// a variable, so whatever else looks like one is escaped.
    pub(crate) fn server_line(&self, value: &str, is_placeholder: bool) -> Option<(String, String)> {
        let key = spelling::server_key(&self.key);
        if spelling::is_format(&key) {
            return Some((key, spelling::format_name(value)?.to_owned()));
        }
        let value = if is_placeholder { value.replace("${env:", "${") } else { value.replace("${", "$${") };
        Some((key, value))
    }

    /// The variable that says this key, if there is one that leads back to it.
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
    fn what_cannot_be_read_is_none_of_what_was_said_before() {
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
