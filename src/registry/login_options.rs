//! Options of the login, by Confluent's names.

use super::login::{Form, Login, LoginSources};
use super::options::Reader;
use crate::credentials::{ClientCredentials, Identity, Source};
use crate::http_client::Address;
use crate::secret::Secret;

/// Options that may have the prefix of Confluent's client too.
pub(super) const NAMES: [&str; 14] = [
    "basic.auth.credentials.source",
    "basic.auth.user.info",
    "bearer.auth.credentials.source",
    "bearer.auth.token",
    "bearer.auth.issuer.endpoint.url",
    "bearer.auth.client.id",
    "bearer.auth.client.secret",
    "bearer.auth.scope",
    "bearer.auth.logical.cluster",
    "bearer.auth.identity.pool.id",
    "bearer.auth.custom.provider.class",
    // The registry checks a token's claims, and a token is renewed in time: they change nothing.
    "bearer.auth.scope.claim.name",
    "bearer.auth.sub.claim.name",
    "bearer.auth.cache.expiry.buffer.seconds",
];

/// Prefix that Confluent's client removes from its options.
pub(super) const PREFIX: &str = "schema.registry.";

const BASIC: &str = "basic.auth.credentials.source";
const BEARER: &str = "bearer.auth.credentials.source";
const ENDPOINT: &str = "bearer.auth.issuer.endpoint.url";

/// Headers of Confluent Cloud, with the options of their values.
const HEADERS: [(&str, &str); 2] = [
    ("bearer.auth.logical.cluster", "target-sr-cluster"),
    ("bearer.auth.identity.pool.id", "Confluent-Identity-Pool-Id"),
];

impl Reader<'_, '_> {
    /// Reads the login: basic authentication if its source is named, else a bearer token, else what is in the addresses.
    pub(super) fn login(&mut self, addresses: &[Address], sources: &LoginSources<'_>) -> Login {
        let basic = self.said(BASIC).map(|(_, source)| source.trim().to_owned());
        match basic.as_deref() {
            None | Some("") => match self.bearer(sources) {
                Some(login) => login,
                None => self.login_of_addresses("schema.registry.url", addresses, sources),
            },
            Some("URL") => self.login_of_addresses("schema.registry.url", addresses, sources),
            Some("USER_INFO") => self.user_info(sources),
            Some(other) => {
                let reason = "it must be URL or USER_INFO; instead of SASL_INHERIT write USER_INFO";
                self.refuse(BASIC, other, reason);
                Login::none(BASIC)
            }
        }
    }

    /// Returns the login in the addresses of an option.
    pub(super) fn login_of_addresses(
        &mut self,
        option: &str,
        addresses: &[Address],
        sources: &LoginSources<'_>,
    ) -> Login {
        let key = self.key_of(option);
        match self.text(option).filter(|_| addresses.iter().any(|address| address.user.is_some())) {
            Some(value) => Login::of_value(&key, Form::Url, &value, (sources.reread)(&key)),
            None => Login::none(&key),
        }
    }

    /// Returns the headers for Confluent Cloud.
    pub(super) fn login_headers(&mut self) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        for (option, header) in HEADERS {
            let Some((name, value)) = self.said(option) else { continue };
            let value = value.trim().to_owned();
            if value.chars().all(|c| c.is_ascii_graphic()) {
                headers.push((header, value));
            } else {
                self.refuse(&name, &value, "it must be an id, such as lsrc-abc123 or pool-abc");
            }
        }
        headers
    }

    fn user_info(&mut self, sources: &LoginSources<'_>) -> Login {
        const OPTION: &str = "basic.auth.user.info";
        let Some((name, value)) = self.said(OPTION) else {
            self.refuse(OPTION, "", "USER_INFO needs it: user:password");
            return Login::none(OPTION);
        };
        let key = self.key_of(&name);
        Login::of_value(&key, Form::UserInfo, &value, (sources.reread)(&key))
    }

    /// Returns the login by a token; None when none is wanted.
    fn bearer(&mut self, sources: &LoginSources<'_>) -> Option<Login> {
        let (name, source) = self.said(BEARER)?;
        let key = self.key_of(&name);
        match source.trim() {
            "" => None,
            "STATIC_TOKEN" => Some(self.static_token(sources)),
            "OAUTHBEARER" => Some(self.client_credentials()),
            "SASL_OAUTHBEARER_INHERIT" => Some(match &sources.kafka {
                Some(tokens) => Login::with_tokens(tokens.clone()),
                None => {
                    let reason = "Kafka's clients have no tokens for a registry: set producer.sasl.mechanism=OAUTHBEARER with \
                                  a source of tokens, or OAUTHBEARER here";
                    self.refuse(&name, &source, reason);
                    Login::none(&key)
                }
            }),
            "CUSTOM" => {
                let reason = "a Java class cannot be loaded: set OAUTHBEARER; or SASL_OAUTHBEARER_INHERIT, with outboxd.kafka.token.command or \
                              another source of Kafka's tokens";
                self.refuse(&name, &source, reason);
                Some(Login::none(&key))
            }
            other => {
                let reason = "it must be one of STATIC_TOKEN, OAUTHBEARER, SASL_OAUTHBEARER_INHERIT";
                self.refuse(&name, other, reason);
                Some(Login::none(&key))
            }
        }
    }

    fn static_token(&mut self, sources: &LoginSources<'_>) -> Login {
        const OPTION: &str = "bearer.auth.token";
        let Some((name, value)) = self.said(OPTION) else {
            self.refuse(OPTION, "", "STATIC_TOKEN needs it");
            return Login::none(OPTION);
        };
        let key = self.key_of(&name);
        Login::of_value(&key, Form::Bearer, &value, (sources.reread)(&key))
    }

    fn client_credentials(&mut self) -> Login {
        let mut needed = |option: &str, example: &str| {
            let said = self.said(option).map(|(_, value)| value.trim().to_owned());
            if said.is_none() {
                self.refuse(option, "", &format!("OAUTHBEARER needs it, such as {example}"));
            }
            said.unwrap_or_default()
        };
        let endpoint = needed(ENDPOINT, "https://login.example.com/oauth2/token");
        let id = needed("bearer.auth.client.id", "orders");
        let secret = Secret::new(needed(
            "bearer.auth.client.secret",
            "${file:/run/secrets/registry.properties:secret}",
        ));
        if !endpoint.is_empty() && Address::parse(&endpoint).is_none() {
            self.refuse(ENDPOINT, &endpoint, "it must be a URL with http or https");
        }
        let scope = self.said("bearer.auth.scope").map(|(_, scope)| scope.trim().to_owned());
        let client = ClientCredentials { endpoint, id, secret, scope };
        Login::with_tokens(Source::identity(&self.key_of(ENDPOINT), Identity::Client(client)))
    }

    /// Returns an option's name as it is written, and its value, unless that is blank.
    fn said(&self, option: &str) -> Option<(String, String)> {
        let prefixed = format!("{PREFIX}{option}");
        let own = self.text(option).map(|value| (option.to_owned(), value));
        own.or_else(|| self.text(&prefixed).map(|value| (prefixed, value)))
    }
}
