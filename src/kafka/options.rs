//! Options of the connection to Kafka.

use std::sync::Arc;
use std::time::Duration;

use super::login::{Login, Property, is_of_login};
use super::topics::topic_creation::TopicCreation;
use crate::credentials::{ClientCredentials, Identity, Source, Tokens};
use crate::key_store::{self, Form, KeyStore};
use crate::secret::Secret;

/// Options of the connection to Kafka. Keys and values are librdkafka's; those that the guarantees depend on
/// are set by the producer itself and cannot be overridden.
#[derive(Debug, Clone)]
pub struct Options {
    /// `bootstrap.servers`.
    pub bootstrap_servers: String,
    /// Properties of `producer.*` and `rdkafka.*`, translated to librdkafka's names. Values may be secrets.
    pub properties: Vec<(String, Secret)>,
    /// `producer.ssl.truststore.*`, when it is not known to be PEM. `open_stores` makes properties of it.
    pub trust_store: Option<KeyStore>,
    /// The same of `producer.ssl.keystore.*`.
    pub key_store: Option<KeyStore>,
    /// Source of SASL OAUTHBEARER's tokens, unless librdkafka requests them from an identity provider itself.
    pub tokens: Option<Tokens>,
    /// The login, if files have a part of it. `open_stores` sets what it begins with.
    pub login: Option<Login>,
    /// Longest wait of a start for the first broker to respond (`outboxd.connect.timeout.ms`, 5 s).
    pub connect_timeout: Duration,
    /// `topic.creation.*`: settings of missing topics; without it the brokers create them.
    pub topic_creation: Option<Arc<TopicCreation>>,
}

impl Options {
    /// Reads the key stores, because librdkafka does not support Java's.
    ///
    /// # Errors
    /// When one of them cannot be used.
    pub(crate) fn open_stores(&mut self) -> Result<(), key_store::Error> {
        if let Some(store) = self.trust_store.take() {
            self.add("ssl.ca.pem", store.certificates()?);
        }
        if let Some(store) = self.key_store.take() {
            match store.form()? {
                Form::Pem => {
                    self.add("ssl.certificate.location", store.path.clone());
                    self.add("ssl.key.location", store.path);
                }
                Form::Pkcs12 => self.add("ssl.keystore.location", store.path),
            }
        }
        if let Some(login) = &self.login {
            login.begin(self.login_properties());
        }
        Ok(())
    }

    /// Returns how often the login has changed since the start.
    pub(super) fn login_changes(&self) -> u64 {
        self.login.as_ref().map_or(0, Login::changes)
    }

    /// Returns the properties of the login.
    pub(crate) fn login_properties(&self) -> Vec<Property> {
        self.properties.iter().filter(|(name, _)| is_of_login(name)).cloned().collect()
    }

    /// Returns whether the login has certificates, keys or authorities in files.
    pub(crate) fn names_login_files(&self) -> bool {
        let is_file = |(name, _): &Property| is_of_login(name) && name.ends_with(".location");
        self.trust_store.is_some() || self.key_store.is_some() || self.properties.iter().any(is_file)
    }

    /// Returns a source of the tokens that the clients log in with, if outboxd can request them and another server may see them. This
    /// includes an identity provider, from which librdkafka requests the tokens of the clients.
    pub(crate) fn token_source(&self) -> Option<Source> {
        if let Some(tokens) = &self.tokens {
            return Some(tokens.source()).filter(|source| !source.signs_for_aws());
        }
        let property = |name: &str| {
            let mut named = self.properties.iter().rev().filter(|(said, _)| said == name);
            named.next().map(|(_, value)| value.clone())
        };
        let text = |name: &str| Some(property(name)?.expose().to_owned());
        let client = ClientCredentials {
            endpoint: text("sasl.oauthbearer.token.endpoint.url")?,
            id: text("sasl.oauthbearer.client.id")?,
            secret: property("sasl.oauthbearer.client.secret")?,
            scope: text("sasl.oauthbearer.scope"),
        };
        Some(Source::identity("producer.sasl.oauthbearer.token.endpoint.url", Identity::Client(client)))
    }

    /// Adds a property, unless `rdkafka.*` has set it.
    fn add(&mut self, name: &str, value: String) {
        if self.properties.iter().all(|(said, _)| said != name) {
            self.properties.push((name.to_owned(), Secret::new(value)));
        }
    }
}
