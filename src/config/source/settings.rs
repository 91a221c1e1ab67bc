//! Every key that is set, with its value and its source.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::file_value::FileValue;
use crate::credentials::Reread;

/// Replacement for a value that must not be shown.
pub(in crate::config) const MASK: &str = "********";

/// Beginnings of Kafka's keys.
const OF_KAFKA: [&str; 4] = ["bootstrap.servers", "outboxd.kafka.", "producer.", "rdkafka."];

/// Beginnings of the keys of Kafka's login, whose files are read again while outboxd runs.
const LOGIN_OF_KAFKA: [&str; 4] = ["producer.sasl.", "producer.ssl.", "rdkafka.sasl.", "rdkafka.ssl."];

/// Credentials that are asked for at each connection: of PostgreSQL, and of schema registries.
const READ_AGAIN: [&str; 4] =
    ["database.password", "basic.auth.user.info", "bearer.auth.token", "apicurio.auth.password"];

/// Source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A file, and the line of the key if the format provides it.
    File {
        /// The file, as it was named.
        path: PathBuf,
        /// The line, counted from 1.
        line: Option<usize>,
    },
    /// An environment variable, by name.
    Environment(String),
    /// `-X key=value`.
    CommandLine,
    /// Debezium Server's own default; no source sets the key.
    ServerDefault,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line: Some(line) } => write!(f, "{}:{line}", path.display()),
            Self::File { path, line: None } => write!(f, "{}", path.display()),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::CommandLine => f.write_str("-X"),
            Self::ServerDefault => f.write_str("Debezium Server's default"),
        }
    }
}

/// One value. `Debug` and `Display` mask it when it is a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Setting {
    /// The key as the user wrote it (`debezium.source.slot.name` where the canonical key is `slot.name`).
    pub written: String,
    /// The value, placeholders resolved.
    pub value: String,
    /// Source of the value.
    pub origin: Origin,
    /// True if it must never be shown: its key holds secrets, or it came through a placeholder.
    pub secret: bool,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.secret { MASK } else { &self.value })
    }
}

impl Setting {
    /// Returns the key as the user wrote it, without the salt that some keys contain.
    #[must_use]
    pub fn shown_key(&self) -> String {
        shown_key(&self.written)
    }
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={self} ({})", self.shown_key(), self.origin)
    }
}

/// Every key that is set, under its canonical name: the one in a connector's JSON. Ordered by key.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    entries: BTreeMap<String, Setting>,
    /// Sources of the values that come from files, by canonical key.
    origins: BTreeMap<String, FileValue>,
}

impl Settings {
    /// Returns the setting of a canonical key.
    #[must_use]
    pub(crate) fn get(&self, key: &str) -> Option<&Setting> {
        self.entries.get(key)
    }

    /// Returns the value of a canonical key.
    #[must_use]
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.get(key).map(|setting| setting.value.as_str())
    }

    /// Returns the source of the value, if it can be read again from a file.
    pub(in crate::config) fn file_value(&self, key: &str) -> Option<&FileValue> {
        self.origins.get(key)
    }

    /// Returns the same, for options that other modules read.
    pub(crate) fn reread(&self, key: &str) -> Option<Arc<dyn Reread>> {
        self.file_value(key).map(|origin| Arc::new(origin.clone()) as Arc<dyn Reread>)
    }

    /// Returns the settings of files that are read at the start alone.
    pub(crate) fn of_files(&self) -> impl Iterator<Item = (String, Arc<dyn Reread>)> {
        let at_start = self.origins.keys().filter(|key| !self.is_read_again(key));
        at_start.filter_map(|key| Some((shown_key(key), self.reread(key)?)))
    }

    /// Returns the settings of Kafka's clients.
    pub(in crate::config) fn of_kafka(&self) -> Self {
        let is_of_kafka = |key: &String| OF_KAFKA.iter().any(|prefix| key.starts_with(prefix));
        let entries = self.entries.iter().filter(|(key, _)| is_of_kafka(key));
        let origins = self.origins.iter().filter(|(key, _)| is_of_kafka(key));
        Self {
            entries: entries.map(|(key, setting)| (key.clone(), setting.clone())).collect(),
            origins: origins.map(|(key, origin)| (key.clone(), origin.clone())).collect(),
        }
    }

    /// Returns whether a part of Kafka's login comes from a file.
    pub(in crate::config) fn has_login_of_files(&self) -> bool {
        self.origins.keys().any(|key| is_login_of_kafka(key))
    }

    /// Returns the same settings, with what their files have now.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(in crate::config) fn read_again(&self) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let mut settings = self.clone();
        for (key, origin) in &self.origins {
            if let Some(setting) = settings.entries.get_mut(key) {
                origin.reread()?.expose().clone_into(&mut setting.value);
            }
        }
        Ok(settings)
    }

    /// Returns whether the value is a credential that is read again while outboxd runs.
    fn is_read_again(&self, key: &str) -> bool {
        let is_login = READ_AGAIN.iter().any(|name| key == *name || key.ends_with(&format!(".{name}")));
        let is_address = key.ends_with("registry.url");
        is_login || is_login_of_kafka(key) || is_address && self.value(key).is_some_and(holds_user)
    }

    /// Sets a key whose value comes from a file.
    pub(in crate::config) fn insert_file_value(&mut self, key: String, setting: Setting, origin: FileValue) {
        self.insert(key.clone(), setting);
        self.origins.insert(key, origin);
    }

    /// Returns every canonical key with its setting, in key order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.entries.iter().map(|(key, setting)| (key.as_str(), setting))
    }

    /// Removes the settings of the keys that begin with a prefix.
    pub(in crate::config) fn forget(&mut self, prefix: &str) {
        self.entries.retain(|key, _| !key.starts_with(prefix));
        self.origins.retain(|key, _| !key.starts_with(prefix));
    }

    /// Sets a key to the default of Debezium Server.
    pub(in crate::config) fn insert_server_default(&mut self, key: &str, value: &str) {
        let (written, value, origin) = (key.to_owned(), value.to_owned(), Origin::ServerDefault);
        self.insert(key.to_owned(), Setting { written, value, origin, secret: false });
    }

    /// Sets a key; a later source wins.
    pub(in crate::config) fn insert(&mut self, key: String, setting: Setting) {
        self.origins.remove(&key);
        self.entries.insert(key, setting);
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|(key, setting)| writeln!(f, "{}={setting}", shown_key(key)))
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(key, setting)| (shown_key(key), setting))).finish()
    }
}

fn is_login_of_kafka(key: &str) -> bool {
    LOGIN_OF_KAFKA.iter().any(|prefix| key.starts_with(prefix))
}

/// Returns a key without the salt that `column.mask.hash.*` contains.
pub(in crate::config) fn shown_key(key: &str) -> String {
    const SALT: &str = ".with.salt.";
    match key.split_once(SALT) {
        Some((before, _)) => format!("{before}{SALT}********"),
        None => key.to_owned(),
    }
}

/// Returns whether values of this key are secrets.
pub(crate) fn holds_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    // The URL of a web hook is sufficient to post to it.
    let ends = [
        "password",
        "password.command",
        "token.command",
        "secret",
        "token",
        "keystore.key",
        "key.pem",
        "user.info",
        "credentials.json",
        "notification.http.url",
    ];
    ends.iter().any(|end| key.ends_with(end))
        || ["jaas.config", "secret", "salt"].iter().any(|part| key.contains(part))
}

/// Returns whether a value is a URL with a user and perhaps a password in it.
pub(crate) fn holds_user(value: &str) -> bool {
    let authorities = value.split("://").skip(1).filter_map(|rest| rest.split(['/', ',']).next());
    authorities.into_iter().any(|authority| authority.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    fn setting(written: &str, value: &str) -> Setting {
        Setting {
            written: written.into(),
            value: value.into(),
            origin: Origin::CommandLine,
            secret: holds_secret(written),
        }
    }

    #[test]
    fn secrets_are_masked_in_every_print() {
        let keys = [
            "database.password",
            "database.sslpassword",
            "producer.sasl.jaas.config",
            "producer.ssl.key.password",
            "producer.ssl.keystore.key",
            "notification.http.url",
            "rdkafka.ssl.key.pem",
            "rdkafka.sasl.oauthbearer.client.secret",
        ];
        let mut settings = Settings::default();
        for key in keys {
            settings.insert(key.into(), setting(key, "hunter2"));
        }
        assert_eq!(settings.to_string().matches("********").count(), keys.len());
        assert!(!settings.to_string().contains("hunter2"));
        assert!(!format!("{settings:?}").contains("hunter2"));
    }

    #[test]
    fn salts_are_masked_in_their_keys() {
        let key = "column.mask.hash.v2.SHA-256.with.salt.hunter2";
        let mut settings = Settings::default();
        settings.insert(key.into(), setting(key, "public.outbox.payload"));
        let shown = format!("{settings} {settings:?}");
        assert!(shown.contains("v2.SHA-256.with.salt.********") && !shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn urls_with_a_user_are_secrets() {
        for url in ["http://me:hunter2@registry:8081", "http://a:1,https://me@b/x"] {
            assert!(holds_user(url), "{url}");
        }
        for url in ["http://registry:8081/a@b", "me@example.com", "http://a:1,http://b:2"] {
            assert!(!holds_user(url), "{url}");
        }
    }

    #[test]
    fn credentials_that_are_read_again_ask_for_no_restart() {
        let mut settings = Settings::default();
        for (key, value) in [
            ("database.hostname", "db"),
            ("database.password", "p"),
            ("key.converter.schema.registry.url", "http://registry"),
            ("producer.client.id", "orders"),
            ("producer.sasl.jaas.config", "x"),
            ("producer.ssl.keystore.password", "p"),
            ("value.converter.basic.auth.user.info", "u:p"),
            ("value.converter.schema.registry.url", "http://u:p@registry"),
        ] {
            let (text, environment) = (Secret::new("${file:/x:k}"), Arc::default());
            let origin = FileValue::Placeholders { text, environment, expressions: false };
            settings.insert_file_value(key.to_owned(), setting(key, value), origin);
        }
        let keys: Vec<_> = settings.of_files().map(|(key, _)| key).collect();
        assert_eq!(keys, ["database.hostname", "key.converter.schema.registry.url", "producer.client.id"]);
    }

    #[test]
    fn what_is_no_secret_is_shown() {
        for key in ["database.sslkey", "topic.prefix", "key.converter", "producer.ssl.keystore.location"] {
            assert_eq!(setting(key, "shown").to_string(), "shown", "{key}");
        }
    }
}
