//! `outboxd.database.service`: parameters of libpq's service file for the keys that no other source sets.

use std::collections::HashMap;

use super::file_value::FileValue;
use super::layers::Layers;
use super::settings::{Origin, Setting, holds_secret};
use crate::config::error::Problem;
use crate::credentials::Service;
use crate::error::chain;

pub(super) const KEY: &str = "outboxd.database.service";

/// Parameters of libpq, and the equivalent keys.
const PARAMETERS: [(&str, &str); 10] = [
    ("host", "database.hostname"),
    ("port", "database.port"),
    ("user", "database.user"),
    ("password", "database.password"),
    ("passfile", "outboxd.database.passfile"),
    ("dbname", "database.dbname"),
    ("sslmode", "database.sslmode"),
    ("sslrootcert", "database.sslrootcert"),
    ("sslcert", "database.sslcert"),
    ("sslkey", "database.sslkey"),
];
/// Parameter for the password of the client's key.
const PASSWORD_OF_KEY: (&str, &str) = ("sslpassword", "database.sslpassword");

/// Adds the service's parameters. Other parameters of libpq are not used.
pub(super) fn add(layers: &mut Layers, environment: &HashMap<String, String>) {
    let Some(setting) = layers.settings.get(KEY).filter(|setting| !setting.value.trim().is_empty()) else {
        return;
    };
    let found = Service::find(setting.value.trim(), |name| environment.get(name).cloned());
    let read = found.and_then(|service| Ok((service.parameters()?, service)));
    let (parameters, service) = match read {
        Ok(read) => read,
        Err(error) => return layers.problems.push(Problem::invalid(setting, chain(&error))),
    };
    for (name, key) in PARAMETERS.into_iter().chain([PASSWORD_OF_KEY]) {
        let Some(parameter) = parameters.iter().find(|parameter| parameter.name == name) else { continue };
        if layers.settings.get(key).is_some_and(|said| !said.value.is_empty()) {
            continue;
        }
        let origin = Origin::File { path: service.file().to_owned(), line: Some(parameter.line) };
        let value = parameter.value.expose().to_owned();
        let setting = Setting { written: key.to_owned(), value, origin, secret: holds_secret(key) };
        let origin = FileValue::Service { service: service.clone(), parameter: name };
        layers.settings.insert_file_value(key.to_owned(), setting, origin);
    }
}
