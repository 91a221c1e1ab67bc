//! SASL logins and key stores for Kafka.

use std::collections::BTreeMap;

use crate::secret::Secret;

use super::jaas::{self, Login};
use super::oauthbearer;
use super::producer::insert;
use super::read::Reader;
use super::settings::Setting;

/// Adds what several of the Java client's keys say together.
pub(super) fn translate(reader: &mut Reader<'_>, properties: &mut BTreeMap<String, Secret>) {
    login(reader, properties);
    endpoint(reader, properties);
    trust_store(reader, properties);
    key_store(reader, properties);
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

/// How certificates and keys are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    Pem,
    Pkcs12,
    Java,
}

/// The type that is said, or the one that the file's name tells; Java's default is JKS.
fn store(reader: &mut Reader<'_>, type_key: &str, location: &str) -> Store {
    let types = [("PEM", Store::Pem), ("PKCS12", Store::Pkcs12), ("JKS", Store::Java)];
    let extension = location.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let told = match extension.as_str() {
        "pem" | "crt" | "cer" => Store::Pem,
        "p12" | "pfx" => Store::Pkcs12,
        _ => Store::Java,
    };
    reader.choice(type_key, &types, told)
}

fn trust_store(reader: &mut Reader<'_>, properties: &mut BTreeMap<String, Secret>) {
    let Some(setting) = located(reader, "producer.ssl.truststore.location") else { return };
    let path = &setting.value;
    match store(reader, "producer.ssl.truststore.type", path) {
        Store::Pem => insert(properties, "ssl.ca.location", path),
        Store::Pkcs12 | Store::Java => reader.invalid(
            setting,
            format!(
                "a key store of Java cannot be read: export its certificates with \
                 `keytool -list -rfc -keystore {path} > ca.pem` and set {}=ca.pem",
                setting.written
            ),
        ),
    }
}

fn key_store(reader: &mut Reader<'_>, properties: &mut BTreeMap<String, Secret>) {
    let Some(setting) = located(reader, "producer.ssl.keystore.location") else { return };
    let path = &setting.value;
    match store(reader, "producer.ssl.keystore.type", path) {
        Store::Pem => {
            insert(properties, "ssl.certificate.location", path);
            insert(properties, "ssl.key.location", path);
        }
        Store::Pkcs12 => insert(properties, "ssl.keystore.location", path),
        Store::Java => reader.invalid(
            setting,
            format!(
                "a key store of Java cannot be read: convert it with `keytool -importkeystore -srckeystore {path} \
                 -destkeystore client.p12 -deststoretype PKCS12` and set {}=client.p12",
                setting.written
            ),
        ),
    }
}

fn located<'a>(reader: &Reader<'a>, key: &str) -> Option<&'a Setting> {
    reader.settings.get(key).filter(|setting| !setting.value.trim().is_empty())
}
