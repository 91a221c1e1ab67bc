//! Every key that was said, its value and where it was said.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// What stands for a value that must not be shown.
pub(super) const MASK: &str = "********";

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A file, and the line of the key when the format tells it.
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
    /// Nobody: Debezium Server's own default.
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
    /// Where it was written.
    pub origin: Origin,
    /// Whether it must never be shown: its key holds secrets, or it came through a placeholder.
    pub secret: bool,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.secret { MASK } else { &self.value })
    }
}

impl Setting {
    /// The key as the user wrote it, as it may be shown: some keys hold a salt.
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

/// Every key that was said, under its canonical name: the one a connector's JSON uses. Ordered by key.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    entries: BTreeMap<String, Setting>,
}

impl Settings {
    /// What was said for a canonical key.
    #[must_use]
    pub(crate) fn get(&self, key: &str) -> Option<&Setting> {
        self.entries.get(key)
    }

    /// Its value.
    #[must_use]
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.get(key).map(|setting| setting.value.as_str())
    }

    /// Every canonical key with its setting, in key order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.entries.iter().map(|(key, setting)| (key.as_str(), setting))
    }

    /// Forgets what was said for the keys that begin so.
    pub(super) fn forget(&mut self, prefix: &str) {
        self.entries.retain(|key, _| !key.starts_with(prefix));
    }

    /// Says a key for Debezium Server.
    pub(super) fn insert_server_default(&mut self, key: &str, value: &str) {
        let (written, value, origin) = (key.to_owned(), value.to_owned(), Origin::ServerDefault);
        self.insert(key.to_owned(), Setting { written, value, origin, secret: false });
    }

    /// Says a key; a later source wins.
    pub(super) fn insert(&mut self, key: String, setting: Setting) {
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

/// A key without the salt that `column.mask.hash.*` holds.
pub(super) fn shown_key(key: &str) -> String {
    const SALT: &str = ".with.salt.";
    match key.split_once(SALT) {
        Some((before, _)) => format!("{before}{SALT}********"),
        None => key.to_owned(),
    }
}

/// Whether values of this key are secrets.
pub(crate) fn holds_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    // Whoever knows the URL of a web hook may post to it.
    let ends = [
        "password",
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

/// Whether a value is a URL with a user and perhaps a password in it.
pub(crate) fn holds_user(value: &str) -> bool {
    let authorities = value.split("://").skip(1).filter_map(|rest| rest.split(['/', ',']).next());
    authorities.into_iter().any(|authority| authority.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_is_no_secret_is_shown() {
        for key in ["database.sslkey", "topic.prefix", "key.converter", "producer.ssl.keystore.location"] {
            assert_eq!(setting(key, "shown").to_string(), "shown", "{key}");
        }
    }
}
