//! Sources of SASL OAUTHBEARER's tokens that are outboxd's own: AWS' IAM for MSK, a file that another program replaces, and a command.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::percent_decode_str;

use super::jaas::AwsLogin;
use crate::config::read::Reader;
use crate::credentials::{
    Azure, Command, Environment, Google, IamToken, Identity, Role, Source, TokenFile, Tokens, Variables,
    region_of_kafka,
};
use crate::secret::Secret;

pub(super) const COMMAND: &str = "outboxd.kafka.token.command";
pub(super) const AUTH: &str = "outboxd.kafka.auth";
const REGION: &str = "outboxd.kafka.aws.region";
const LIMIT: &str = "outboxd.kafka.token.timeout.ms";
const ENDPOINT: &str = "producer.sasl.oauthbearer.token.endpoint.url";
const JAAS: &str = "producer.sasl.jaas.config";
const RETRIEVER: &str = "producer.sasl.oauthbearer.jwt.retriever.class";

/// Prefix of librdkafka's properties that are about tokens.
const PROPERTIES: &str = "sasl.oauthbearer.";

/// Login callback handlers in Java, and the cloud whose tokens they ask for.
const HANDLERS: [(&str, Cloud); 5] = [
    (
        "com.azure.spring.cloud.service.implementation.kafka.KafkaOAuth2AuthenticateCallbackHandler",
        Cloud::Azure,
    ),
    ("com.azure.spring.cloud.service.kafka.KafkaOAuth2AuthenticateCallbackHandler", Cloud::Azure),
    ("io.kafbat.ui.config.auth.azure.AzureEntraLoginCallbackHandler", Cloud::Azure),
    ("org.akhq.azure.KafkaOAuth2AuthenticateCallbackHandler", Cloud::Azure),
    ("com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler", Cloud::Google),
];

/// Cloud whose identity logs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cloud {
    Azure,
    Google,
}

impl Cloud {
    /// Returns the cloud of `outboxd.kafka.auth`, or of the handler in Java.
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let choices = [("azure", Some(Self::Azure)), ("google", Some(Self::Google))];
        let handler = reader.filled("producer.sasl.login.callback.handler.class").unwrap_or_default();
        let of_handler = HANDLERS.iter().find(|(class, _)| *class == handler).map(|(_, cloud)| *cloud);
        reader.choice(AUTH, &choices, of_handler)
    }
}

/// Sources besides those of librdkafka.
#[derive(Debug, Default)]
pub(super) struct OwnLogin {
    /// Azure or Google.
    pub(super) cloud: Option<Cloud>,
    /// Amazon's, if it or its handler is wanted.
    pub(super) aws: Option<AwsLogin>,
    /// Strimzi's file.
    pub(super) token_file: Option<PathBuf>,
}

/// Returns the source of tokens, if it is AWS' IAM, a command or a file. Then librdkafka's own properties about tokens are removed.
pub(super) fn tokens(
    reader: &mut Reader<'_>,
    login: OwnLogin,
    properties: &mut BTreeMap<String, Secret>,
) -> Option<Tokens> {
    let limit = reader.millis(LIMIT, 1, Duration::from_secs(10));
    let source = match (login.aws, login.cloud) {
        (Some(aws), _) => msk(reader, aws),
        (None, Some(cloud)) => Some(of_cloud(reader, cloud)),
        (None, None) => command(reader).or_else(|| file(reader, login.token_file, properties)),
    };
    let source = source?;
    if properties.contains_key("sasl.oauthbearer.extensions")
        && let Some(setting) = reader.settings.get(JAAS)
    {
        let reason = "its extension_… need a token endpoint: librdkafka's binding sends none with a token of a file or a command";
        reader.invalid(setting, reason);
    }
    properties.retain(|name, _| !name.starts_with(PROPERTIES));
    let servers = reader.filled("bootstrap.servers").unwrap_or_default();
    Some(Tokens::new(source.within(limit), servers))
}

/// Returns the source of the tokens of Event Hubs, or of Google's Kafka.
fn of_cloud(reader: &mut Reader<'_>, cloud: Cloud) -> Source {
    let servers = reader.filled("bootstrap.servers").unwrap_or_default();
    let (name, identity) = match cloud {
        Cloud::Azure => ("Azure", Identity::Azure(Azure::event_hubs(Variables::of_process(), servers))),
        Cloud::Google => ("Google", Identity::Google(Google::kafka(Variables::of_process()))),
    };
    refuse_command(reader, name);
    Source::identity(AUTH, identity)
}

fn refuse_command(reader: &mut Reader<'_>, maker: &str) {
    if let Some(setting) = reader.settings.get(COMMAND) {
        reader.invalid(setting, format!("{maker} makes the tokens: set one of them"));
    }
}

/// Returns the source of MSK's tokens.
fn msk(reader: &mut Reader<'_>, login: AwsLogin) -> Option<Source> {
    refuse_command(reader, "AWS' IAM");
    let environment = match &login.profile {
        Some(profile) => Environment::of_process().with_profile(profile),
        None => Environment::of_process(),
    };
    let servers = reader.filled("bootstrap.servers").unwrap_or_default();
    let named = reader.filled(REGION).or_else(|| region_of_kafka(servers)).map(str::to_owned);
    let Some(region) = named.or_else(|| environment.region()) else {
        let reason = "the region of MSK is neither in the brokers' names nor in AWS_REGION";
        reader.missing(REGION, reason, &[(REGION, "eu-central-1")]);
        return None;
    };
    let AwsLogin { role, role_session: session, role_external_id: external_id, sts_region, .. } = login;
    let role = role.map(|arn| Role { arn, session, external_id, sts_region });
    Some(Source::iam_token(JAAS, IamToken::msk(environment, region, role)))
}

fn command(reader: &mut Reader<'_>) -> Option<Source> {
    let setting = reader.settings.get(COMMAND)?;
    if let Some(endpoint) = reader.settings.get(ENDPOINT) {
        reader.invalid(endpoint, format!("{COMMAND} is set too: set one of them"));
    }
    match Command::parse(&setting.value) {
        Ok(command) => Some(Source::command(COMMAND, command)),
        Err(error) => {
            reader.invalid(setting, error.to_string());
            None
        }
    }
}

/// Returns the file of an endpoint with the scheme `file`, as the Java client reads it, or of Strimzi's option.
fn file(
    reader: &mut Reader<'_>,
    token_file: Option<PathBuf>,
    properties: &BTreeMap<String, Secret>,
) -> Option<Source> {
    let endpoint = properties.get("sasl.oauthbearer.token.endpoint.url").map(Secret::expose);
    let of_url = endpoint.and_then(|url| path(url.trim()));
    let retriever = reader.settings.get(RETRIEVER);
    let wants_file = retriever.filter(|setting| setting.value.trim().ends_with(".FileJwtRetriever"));
    if let Some(setting) = wants_file.filter(|_| of_url.is_none()) {
        reader.invalid(setting, format!("it needs {ENDPOINT}=file:///path"));
    }
    let source = |option, path| Source::reread(option, Arc::new(TokenFile::new(path)));
    match (of_url, token_file) {
        (Some(path), _) => Some(source(ENDPOINT, path)),
        (None, Some(path)) => Some(source(JAAS, path)),
        (None, None) => None,
    }
}

/// Returns the path of a URL such as `file:///a` or `file:/a`.
fn path(url: &str) -> Option<PathBuf> {
    let (scheme, rest) = url.split_once(':')?;
    let path = match rest.strip_prefix("//") {
        Some(rest) => rest.strip_prefix("localhost").unwrap_or(rest),
        None => rest,
    };
    let is_file = scheme.eq_ignore_ascii_case("file") && path.starts_with('/');
    let decoded = || percent_decode_str(path).decode_utf8().ok().map(|path| PathBuf::from(&*path));
    is_file.then(decoded).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_of_a_file_has_a_path() {
        for (url, expected) in [
            ("file:///var/run/secrets/token", Some("/var/run/secrets/token")),
            ("file:/var/run/secrets/token", Some("/var/run/secrets/token")),
            ("FILE://localhost/a%20b", Some("/a b")),
            ("file://other/a", None),
            ("https://a/t", None),
            ("token", None),
        ] {
            assert_eq!(path(url), expected.map(PathBuf::from), "{url}");
        }
    }
}
