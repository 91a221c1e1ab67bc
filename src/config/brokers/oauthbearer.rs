//! SASL OAUTHBEARER for Kafka: an identity provider issues tokens for a client's name and secret (RFC 6749, section
//! 4.4).

use std::collections::BTreeMap;

use crate::credentials::Tokens;
use crate::secret::Secret;

use super::jaas::TokenLogin;
use super::producer::insert;
use super::tokens::{self, OwnLogin};
use crate::config::read::Reader;

pub(in crate::config) const MECHANISM: &str = "OAUTHBEARER";

/// Required options: librdkafka's name, the Java client's key, the reason, and an example.
const NEEDED: [(&str, &str, &str, &str); 3] = [
    (
        "sasl.oauthbearer.token.endpoint.url",
        "producer.sasl.oauthbearer.token.endpoint.url",
        "where to ask for tokens",
        "https://login.example.com/oauth2/token",
    ),
    ("sasl.oauthbearer.client.id", "producer.sasl.jaas.config", "who asks for tokens", LOGIN),
    ("sasl.oauthbearer.client.secret", "producer.sasl.jaas.config", "who asks for tokens", LOGIN),
];
const LOGIN: &str = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId=\"…\" \
                     clientSecret=\"…\";";

/// Adds the options of the login module, unless a key of its own has set the property already.
pub(in crate::config) fn ask_with(login: TokenLogin, properties: &mut BTreeMap<String, Secret>) {
    let extensions: Vec<_> = login.extensions.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let extensions = (!extensions.is_empty()).then(|| extensions.join(","));
    let told = [
        ("token.endpoint.url", login.endpoint.map(Secret::new)),
        ("client.id", login.client_id.map(Secret::new)),
        ("client.secret", login.client_secret),
        ("scope", login.scope.map(Secret::new)),
        ("extensions", extensions.map(Secret::new)),
    ];
    for (name, value) in told {
        if let Some(value) = value {
            properties.entry(format!("sasl.oauthbearer.{name}")).or_insert(value);
        }
    }
}

/// Returns outboxd's own source of tokens: AWS' IAM, a file or a command. Without one it configures the client library to request tokens
/// itself, unless `rdkafka.*` configures another method. Reports a missing option.
pub(super) fn ask_for_tokens(
    reader: &mut Reader<'_>,
    login: OwnLogin,
    properties: &mut BTreeMap<String, Secret>,
) -> Option<Tokens> {
    let own = tokens::tokens(reader, login, properties);
    if own.is_some() {
        return own;
    }
    // OpenSSL is linked statically, and does not know the location of the system's certificates.
    insert(properties, "https.ca.location", "probe");
    let elsewhere = ["rdkafka.sasl.oauthbearer.method", "rdkafka.enable.sasl.oauthbearer.unsecure.jwt"];
    if elsewhere.iter().any(|key| reader.settings.get(key).is_some()) {
        return None;
    }
    insert(properties, "sasl.oauthbearer.method", "oidc");
    let is_told =
        |name: &str| properties.contains_key(name) || reader.filled(&format!("rdkafka.{name}")).is_some();
    if let Some((_, key, reason, example)) = NEEDED.iter().find(|(name, ..)| !is_told(name)) {
        reader.missing(key, reason, &[(key, example)]);
    }
    None
}
