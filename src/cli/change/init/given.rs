//! Settings given by the user.

use std::path::{Path, PathBuf};

use super::args::InitArgs;
use super::error::InitError;
use crate::cli::shell::address::{Address, PASSWORD};
use crate::config::{DatabaseConfig, Portable, ShownConfig, ShownSetting, Sources};
use crate::postgres::ServerOptions;

const BOOTSTRAP: &str = "bootstrap.servers";
/// Placeholder for brokers that are not configured, for the checks. No record is sent there.
const NO_BROKERS: &str = "localhost:9092";
/// Prefixes of variables that are keys. They apply to this process, and are not written to the file.
const OF_KEYS: [&str; 3] = ["OUTBOXD_", "DEBEZIUM_", "QUARKUS_"];

/// Settings given by the user.
#[derive(Debug)]
pub(super) struct Given {
    /// All settings, with the addresses of PostgreSQL and Kafka.
    pub(super) sources: Sources,
    /// Settings of files and `-X`, without those of variables.
    pub(super) said: Vec<ShownSetting>,
    pub(super) server: ServerOptions,
    pub(super) address: Option<Address>,
    /// Role of the later `outboxd run`.
    pub(super) role: String,
    /// Existing configuration file; none if it will be written.
    pub(super) file: Option<PathBuf>,
    /// True if the brokers are known.
    pub(super) has_brokers: bool,
}

impl Given {
    pub(super) fn of(args: &InitArgs) -> Result<Self, InitError> {
        let address = args.postgres.as_deref().map(Address::parse).transpose()?;
        let mut sources = args.config.sources();
        let into = args.file();
        let is_there = into.exists();
        if is_there {
            sources.files.push(into.clone());
        }
        if address.is_none() && sources.is_empty() {
            return Err(InitError::NoServer);
        }
        let said = said(&sources)?;
        if let Some(address) = &address {
            address.add_to(&mut sources);
        }
        if let Some(kafka) = &args.kafka {
            sources.overrides.push(format!("{BOOTSTRAP}={kafka}"));
        }
        let config = |error| InitError::Config(Box::new(error));
        let all = ShownConfig::load(&sources).map_err(config)?.settings;
        let has_brokers = all.iter().any(|setting| setting.key.ends_with(BOOTSTRAP));
        if !has_brokers {
            sources.overrides.push(format!("{BOOTSTRAP}={NO_BROKERS}"));
        }
        let server = DatabaseConfig::load(&sources).map_err(config)?.options.server;
        let is_complete = is_there || said.iter().any(|setting| setting.key == "transforms");
        let file = if is_there { Some(into) } else { args.config.config.last().cloned() };
        let user = said.iter().find(|setting| setting.key == "database.user").and_then(plain);
        Ok(Self {
            role: args.role.clone().or(user).unwrap_or_else(|| server.user.clone()),
            file: file.filter(|_| is_complete),
            sources,
            said,
            server,
            address,
            has_brokers,
        })
    }

    /// Returns the sources with proposed settings that are not given.
    pub(super) fn with(&self, proposed: &[(String, String)]) -> Sources {
        let unsaid = proposed.iter().filter(|(key, _)| !self.says(key));
        let lines = unsaid.map(|(key, value)| format!("{key}={value}"));
        let overrides = lines.chain(self.sources.overrides.iter().cloned()).collect();
        Sources { overrides, ..self.sources.clone() }
    }

    /// Returns the configuration to write: the proposed settings, the addresses of PostgreSQL and Kafka, and the given
    /// settings.
    pub(super) fn written(
        &self,
        proposed: Vec<(String, String)>,
        kafka: Option<&str>,
    ) -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> = proposed;
        if let Some(address) = &self.address {
            let own = address.settings().map(|(key, value)| match key {
                "database.user" => (key.to_owned(), self.role.clone()),
                _ => (key.to_owned(), value),
            });
            let password = address.password.is_some() || address.user != self.role;
            let password = password.then(|| ("database.password".to_owned(), format!("${{env:{PASSWORD}}}")));
            all.extend(own.into_iter().chain(password));
        }
        all.extend(kafka.map(|kafka| (BOOTSTRAP.to_owned(), kafka.to_owned())));
        for setting in &self.said {
            let Some(value) = portable(setting) else { continue };
            match all.iter_mut().find(|(key, _)| *key == setting.key) {
                Some((_, known)) => *known = value,
                None => all.push((setting.key.clone(), value)),
            }
        }
        all
    }

    fn says(&self, key: &str) -> bool {
        self.said.iter().any(|setting| setting.key == key)
    }
}

fn said(sources: &Sources) -> Result<Vec<ShownSetting>, InitError> {
    let is_key = |name: &str| OF_KEYS.iter().any(|prefix| name.starts_with(prefix));
    let environment = sources.environment.iter().filter(|(name, _)| !is_key(name)).cloned().collect();
    let config = ShownConfig::load(&Sources { environment, ..sources.clone() });
    Ok(config.map_err(|error| InitError::Config(Box::new(error)))?.settings)
}

fn plain(setting: &ShownSetting) -> Option<String> {
    match &setting.portable {
        Portable::Plain(value) => Some(value.clone()),
        _ => None,
    }
}

fn portable(setting: &ShownSetting) -> Option<String> {
    match &setting.portable {
        Portable::Plain(value) | Portable::Placeholder(value) => Some(value.clone()),
        Portable::Variable(name) => Some(format!("${{env:{name}}}")),
        Portable::Hidden => None,
    }
}

/// Returns whether a file is written as properties; otherwise it is JSON.
pub(super) fn is_properties(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "properties")
}
