//! SASL logins and key stores for Kafka.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::credentials::Tokens;
use crate::key_store::KeyStore;
use crate::secret::Secret;

use super::jaas::{self, AwsLogin, Login};
use super::oauthbearer;
use super::producer::insert;
use super::tokens::{self, Cloud, OwnLogin};
use crate::config::known::check;
use crate::config::read::Reader;
use crate::config::source::settings::Setting;

/// Names of Amazon's library for MSK: its mechanism, and its handler for OAUTHBEARER.
const MSK_MECHANISM: &str = "AWS_MSK_IAM";
const MSK_HANDLER: &str = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler";

/// Adds the properties that depend on several of the Java client's keys. Returns outboxd's own source of tokens, if there is one.
pub(in crate::config) fn translate(
    reader: &mut Reader<'_>,
    properties: &mut BTreeMap<String, Secret>,
) -> Option<Tokens> {
    let tokens = login(reader, properties);
    let unused = [tokens::COMMAND, tokens::AUTH].into_iter().find_map(|key| reader.settings.get(key));
    if let Some(setting) = unused.filter(|_| tokens.is_none()) {
        reader.invalid(
            setting,
            "it needs producer.security.protocol=SASL_SSL and producer.sasl.mechanism=OAUTHBEARER",
        );
    }
    endpoint(reader, properties);
    tokens
}

fn login(reader: &mut Reader<'_>, properties: &mut BTreeMap<String, Secret>) -> Option<Tokens> {
    let (mut mechanism, mut own) = (None, OwnLogin::default());
    let mut aws = AwsLogin::default();
    if let Some(setting) = reader.settings.get("producer.sasl.jaas.config") {
        match jaas::parse(&setting.value) {
            Ok(Login::Password(login)) => {
                insert(properties, "sasl.username", &login.username);
                properties.insert("sasl.password".to_owned(), login.password);
                mechanism = login.mechanism;
            }
            Ok(Login::Token(mut login)) => {
                own.token_file = login.token_file.take().map(PathBuf::from);
                aws = *std::mem::take(&mut login.aws);
                oauthbearer::ask_with(login, properties);
                mechanism = Some(oauthbearer::MECHANISM);
            }
            Err(reason) => reader.invalid(setting, reason),
        }
    }
    let protocol = reader.filled("producer.security.protocol").unwrap_or_default().to_ascii_lowercase();
    if !protocol.starts_with("sasl") {
        return None;
    }
    let is_said = ["producer.sasl.mechanism", "rdkafka.sasl.mechanism", "rdkafka.sasl.mechanisms"];
    let said = is_said.iter().find_map(|key| reader.filled(key));
    match (said, mechanism) {
        (None, Some(told)) => insert(properties, "sasl.mechanism", told),
        (None, None) => reader.missing(
            "producer.sasl.mechanism",
            "the client's default, GSSAPI, is not built in",
            &[("producer.sasl.mechanism", "SCRAM-SHA-512")],
        ),
        (Some(_), _) => {}
    }
    let used = said.or(mechanism).unwrap_or_default();
    let handler = reader.filled("producer.sasl.login.callback.handler.class").unwrap_or_default();
    let is_msk = used.eq_ignore_ascii_case(MSK_MECHANISM) || aws.is_module || handler == MSK_HANDLER;
    if is_msk {
        // Brokers of MSK accept the same signature as a token.
        insert(properties, "sasl.mechanism", oauthbearer::MECHANISM);
        own.aws = Some(aws);
    } else {
        own.cloud = Cloud::read(reader);
    }
    if is_msk || used.eq_ignore_ascii_case(oauthbearer::MECHANISM) {
        return oauthbearer::ask_for_tokens(reader, own, properties);
    }
    None
}

/// Sets the check of the host name; in Java's spelling an empty algorithm switches it off.
fn endpoint(reader: &mut Reader<'_>, properties: &mut BTreeMap<String, Secret>) {
    let Some(setting) = reader.settings.get("producer.ssl.endpoint.identification.algorithm") else { return };
    let algorithm = match setting.value.trim() {
        "" => "none",
        value if value.eq_ignore_ascii_case("https") => "https",
        _ => return reader.invalid(setting, "it must be https, or empty for none"),
    };
    insert(properties, "ssl.endpoint.identification.algorithm", algorithm);
}

/// Returns whether a store is PEM, by its type or else by its extension. librdkafka reads PEM files itself; outboxd
/// reads the others first.
fn is_pem(reader: &mut Reader<'_>, type_key: &str, location: &str) -> bool {
    let extension = location.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let told = matches!(extension.as_str(), "pem" | "crt" | "cer");
    reader.choice(type_key, &[("PEM", true), ("PKCS12", false), ("JKS", false)], told)
}

/// Reads `ssl.truststore.*`. Returns the store, unless it is PEM.
pub(in crate::config) fn trust_store(
    reader: &mut Reader<'_>,
    properties: &mut BTreeMap<String, Secret>,
) -> Option<KeyStore> {
    const PASSWORD: &str = "producer.ssl.truststore.password";
    let password = reader.settings.get(PASSWORD);
    let Some(setting) = located(reader, "producer.ssl.truststore.location") else {
        if let Some(password) = password {
            check::ignore(
                &mut reader.notices,
                "it belongs to ssl.truststore.location, which is not set",
                password,
            );
        }
        return None;
    };
    if is_pem(reader, "producer.ssl.truststore.type", &setting.value) {
        insert(properties, "ssl.ca.location", &setting.value);
        if let Some(password) = password {
            check::ignore(&mut reader.notices, "certificates in a PEM file are not encrypted", password);
        }
        return None;
    }
    let password = password.map(|password| Secret::new(&password.value));
    Some(store(setting, password))
}

/// Reads `ssl.keystore.*`. Returns the store, unless it is PEM; librdkafka receives its password.
pub(in crate::config) fn key_store(
    reader: &mut Reader<'_>,
    properties: &mut BTreeMap<String, Secret>,
) -> Option<KeyStore> {
    let setting = located(reader, "producer.ssl.keystore.location")?;
    if is_pem(reader, "producer.ssl.keystore.type", &setting.value) {
        insert(properties, "ssl.certificate.location", &setting.value);
        insert(properties, "ssl.key.location", &setting.value);
        return None;
    }
    Some(store(setting, None))
}

fn store(setting: &Setting, password: Option<Secret>) -> KeyStore {
    KeyStore { option: setting.written.clone(), path: setting.value.clone(), password }
}

fn located<'a>(reader: &Reader<'a>, key: &str) -> Option<&'a Setting> {
    reader.settings.get(key).filter(|setting| !setting.value.trim().is_empty())
}
