//! SASL logins and key stores for Kafka.

use std::collections::BTreeMap;

use crate::key_store::KeyStore;
use crate::secret::Secret;

use super::check;
use super::jaas::{self, Login};
use super::oauthbearer;
use super::producer::insert;
use super::read::Reader;
use super::settings::Setting;

/// Adds what several of the Java client's keys say together.
pub(super) fn translate(reader: &mut Reader<'_>, properties: &mut BTreeMap<String, Secret>) {
    login(reader, properties);
    endpoint(reader, properties);
}

fn login(reader: &mut Reader<'_>, properties: &mut BTreeMap<String, Secret>) {
    let mut mechanism = None;
    if let Some(setting) = reader.settings.get("producer.sasl.jaas.config") {
        match jaas::parse(&setting.value) {
            Ok(Login::Password(login)) => {
                insert(properties, "sasl.username", &login.username);
                properties.insert("sasl.password".to_owned(), login.password);
                mechanism = login.mechanism;
            }
            Ok(Login::Token(login)) => {
                oauthbearer::ask_with(login, properties);
                mechanism = Some(oauthbearer::MECHANISM);
            }
            Err(reason) => reader.invalid(setting, reason),
        }
    }
    let protocol = reader.filled("producer.security.protocol").unwrap_or_default().to_ascii_lowercase();
    if !protocol.starts_with("sasl") {
        return;
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
    if said.or(mechanism).is_some_and(|used| used.eq_ignore_ascii_case(oauthbearer::MECHANISM)) {
        oauthbearer::ask_for_tokens(reader, properties);
    }
}

/// An empty algorithm switches the check of the host name off, in Java's spelling.
fn endpoint(reader: &mut Reader<'_>, properties: &mut BTreeMap<String, Secret>) {
    let Some(setting) = reader.settings.get("producer.ssl.endpoint.identification.algorithm") else { return };
    let algorithm = match setting.value.trim() {
        "" => "none",
        value if value.eq_ignore_ascii_case("https") => "https",
        _ => return reader.invalid(setting, "it must be https, or empty for none"),
    };
    insert(properties, "ssl.endpoint.identification.algorithm", algorithm);
}

/// A file that is known to be PEM is librdkafka's to read. Any other is looked at first.
fn is_pem(reader: &mut Reader<'_>, type_key: &str, location: &str) -> bool {
    let extension = location.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let told = matches!(extension.as_str(), "pem" | "crt" | "cer");
    reader.choice(type_key, &[("PEM", true), ("PKCS12", false), ("JKS", false)], told)
}

/// `ssl.truststore.*`; the store, unless it is PEM.
pub(super) fn trust_store(
    reader: &mut Reader<'_>,
    properties: &mut BTreeMap<String, Secret>,
) -> Option<KeyStore> {
    const PASSWORD: &str = "producer.ssl.truststore.password";
    let password = reader.settings.get(PASSWORD);
    let Some(setting) = located(reader, "producer.ssl.truststore.location") else {
        if let Some(password) = password {
            check::ignore(
                &mut reader.notices,
                "it is of ssl.truststore.location, which is not said",
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

/// `ssl.keystore.*`; the store, unless it is PEM. Its password is librdkafka's.
pub(super) fn key_store(
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
