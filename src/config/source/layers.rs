//! Merge of the sources: files, then the environment, then `-X`.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::environment::{self, Variable};
use super::file::{self, Chosen, Entry};
use super::file_value::FileValue;
use super::placeholder::{Resolved, Resolver};
use super::settings::{Origin, Setting, Settings, holds_secret, holds_user};
use super::snippet::cloud::{self, Translated};
use super::{profiles, service, spelling};
use crate::config::error::{ConfigError, Problem};
use crate::config::features::converters;
use crate::config::notice::Notice;

/// Sources of a configuration.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Files in the order in which they were named; a later one wins. `FILE#NAME` is one connector of a file.
    pub files: Vec<PathBuf>,
    /// The environment, for keys and for `${env:X}`.
    pub environment: Vec<(String, String)>,
    /// Settings of `-X`: `key=value`.
    pub overrides: Vec<String>,
}

impl Sources {
    /// Returns whether no configuration is given. The environment alone may be one.
    pub(crate) fn is_empty(&self) -> bool {
        let ours =
            |name: &str| ["OUTBOXD_DATABASE_", "DEBEZIUM_"].iter().any(|start| name.starts_with(start));
        self.files.is_empty()
            && self.overrides.is_empty()
            && !self.environment.iter().any(|(name, _)| ours(name))
    }
}

/// Form of a configuration, which determines the default wire formats and the spelling of keys in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::config) enum Dialect {
    /// A connector in Kafka Connect.
    Connect,
    /// Debezium Server's `application.properties`.
    Server,
}

impl Dialect {
    /// Returns the key as this dialect's files spell it.
    pub(in crate::config) fn spelled(self, key: &str) -> String {
        match self {
            Self::Connect => key.to_owned(),
            Self::Server => spelling::server_key(key),
        }
    }

    /// Returns a line that sets a key.
    pub(in crate::config) fn line(self, key: &str, value: &str) -> String {
        let value = if self == Self::Server { value.replace("${", "$${") } else { value.to_owned() };
        format!("{}={value}", self.spelled(key))
    }

    /// Returns the mistake of a required key that is not set, with the lines that set it.
    pub(in crate::config) fn missing(self, key: &str, reason: &str, lines: &[(&str, &str)]) -> Problem {
        let lines: Vec<_> = lines.iter().map(|(key, value)| self.line(key, value)).collect();
        Problem::Missing { key: self.spelled(key), reason: reason.to_owned(), lines: lines.join("\n") }
    }
}

/// Merged settings of the sources.
#[derive(Debug)]
pub(in crate::config) struct Layers {
    pub settings: Settings,
    pub dialect: Dialect,
    pub problems: Vec<Problem>,
    pub notices: Vec<Notice>,
    /// Original text of values that were replaced, such as placeholders, by canonical key.
    pub said: BTreeMap<String, String>,
    /// Sources of values that could not be read, by canonical key; the earlier value of such a key does not apply.
    pub unread: BTreeMap<String, Origin>,
    /// True if an earlier file was a Connect worker's.
    behind_worker: bool,
}

/// Returns whether the problem is a placeholder in the value of these keys, which a later source sets.
fn is_replaced(problem: &Problem, keys: &[String]) -> bool {
    let Problem::Placeholder { said, .. } = problem else { return false };
    spelling::canonical(&said.key).iter().all(|key| keys.contains(key))
}

/// Reads every source. Fails with all files that cannot be read: without their settings, the others cannot be checked.
pub(in crate::config) fn collect(sources: &Sources) -> Result<Layers, ConfigError> {
    let environment = sources.environment.iter().cloned().collect();
    let mut layers = Layers {
        settings: Settings::default(),
        dialect: Dialect::Connect,
        problems: Vec::new(),
        notices: Vec::new(),
        said: BTreeMap::new(),
        unread: BTreeMap::new(),
        behind_worker: false,
    };
    let add = |path: &PathBuf| layers.add_file(path, &environment).err();
    let unread: Vec<Problem> = sources.files.iter().filter_map(add).collect();
    if let Some(error) = ConfigError::of(unread) {
        return Err(error);
    }
    let has_server_variables =
        sources.environment.iter().any(|(name, _)| name.starts_with("DEBEZIUM_SOURCE_"));
    if sources.files.is_empty() && has_server_variables {
        layers.dialect = Dialect::Server;
    }
    layers.add_environment(&sources.environment, &environment);
    for text in &sources.overrides {
        if let Err(problem) = layers.add_override(text, &environment) {
            layers.problems.push(problem);
        }
    }
    service::add(&mut layers, &environment);
    layers.add_server_defaults();
    Ok(layers)
}

impl Layers {
    fn add_file(&mut self, named: &Path, environment: &HashMap<String, String>) -> Result<(), Problem> {
        let Chosen { path, layers, notices } = file::read(named)?;
        self.notices.extend(notices);
        for entries in layers {
            self.add_entries(&path, entries, environment);
        }
        Ok(())
    }

    fn add_entries(&mut self, path: &Path, entries: Vec<Entry>, environment: &HashMap<String, String>) {
        let (entries, notice) = profiles::choose(entries, environment);
        self.notices.extend(notice);
        let origin = |line| Origin::File { path: path.into(), line };
        let Translated { entries, problems, notices } = cloud::translate(entries, origin);
        self.problems.extend(problems);
        self.notices.extend(notices);
        let expressions = file::is_server(&entries);
        if expressions {
            self.dialect = Dialect::Server;
        }
        let is_worker = converters::is_worker(&entries);
        let (entries, notices) = converters::lay(&mut self.settings, entries, self.behind_worker);
        self.notices.extend(notices);
        self.behind_worker |= is_worker;
        let resolver = Resolver { environment, expressions };
        // `debezium.format.schemas.enable` applies to all three roles. A key that names its role overrides it.
        let (named, all): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|e| spelling::canonical(&e.key).len() == 1);
        for Entry { key, value, line } in all.into_iter().chain(named) {
            self.say(key, &value, Origin::File { path: path.into(), line }, resolver);
        }
    }

    fn add_environment(&mut self, variables: &[(String, String)], environment: &HashMap<String, String>) {
        let names = ["DEBEZIUM_TRANSFORMS", "OUTBOXD_TRANSFORMS", "DEBEZIUM_SOURCE_TRANSFORMS"];
        let said = names.iter().filter_map(|name| environment.get(*name).map(String::as_str));
        let lists: Vec<_> = said.chain(self.settings.value("transforms")).collect();
        let aliases: Vec<_> = lists.join(",").split(',').map(|alias| alias.trim().to_owned()).collect();
        let resolver = Resolver { environment, expressions: false };
        // In this order outboxd's variables come after Debezium Server's, and win.
        let mut variables: Vec<_> = variables.iter().collect();
        variables.sort();
        for (name, value) in variables {
            match environment::variable(name, value, &aliases) {
                Variable::Foreign => {}
                Variable::Key(key) => self.say(key, value, Origin::Environment(name.clone()), resolver),
                Variable::Unknown { nearest } => {
                    self.problems.push(Problem::UnknownVariable { name: name.clone(), nearest });
                }
            }
        }
    }

    fn add_override(&mut self, text: &str, environment: &HashMap<String, String>) -> Result<(), Problem> {
        let Some((key, value)) = text.split_once('=').filter(|(key, _)| !key.trim().is_empty()) else {
            // What follows the first word may be a secret.
            let word = text.split([' ', ':', '=']).next().unwrap_or_default();
            return Err(Problem::Override(word.to_owned()));
        };
        let resolver = Resolver { environment, expressions: false };
        self.say(key.trim().to_owned(), value, Origin::CommandLine, resolver);
        Ok(())
    }

    fn say(&mut self, written: String, value: &str, origin: Origin, resolver: Resolver<'_>) {
        let mut setting = Setting {
            secret: holds_secret(&written) || holds_user(value),
            value: value.to_owned(),
            written,
            origin,
        };
        let resolved = resolver.resolve(value).and_then(|resolved| {
            // A password on the command line is meant as it is written.
            let is_file = matches!(setting.origin, Origin::File { .. });
            if is_file {
                resolver.refuse_bare(&setting.written, value).map(|()| resolved)
            } else {
                Ok(resolved)
            }
        });
        match resolved {
            Ok(Resolved { value, provided }) => {
                setting.secret |= provided;
                setting.value = value;
            }
            Err(source) => {
                let said = (&setting).into();
                self.cannot_read(&setting);
                return self.problems.push(Problem::Placeholder { said, source });
            }
        }
        if spelling::is_format(&setting.written) {
            let Some(class) = spelling::format_class(&setting.value) else {
                let allowed = "it must be json, simplestring, binary or avro; others are not available yet";
                self.cannot_read(&setting);
                return self.problems.push(Problem::invalid(&setting, allowed));
            };
            class.clone_into(&mut setting.value);
        }
        let file_value = FileValue::of_placeholders(value, resolver);
        let keys = spelling::canonical(&setting.written);
        self.problems.retain(|problem| !is_replaced(problem, &keys));
        for key in keys {
            if setting.value == value {
                self.said.remove(&key);
            } else {
                self.said.insert(key.clone(), value.to_owned());
            }
            self.unread.remove(&key);
            match &file_value {
                Some(file_value) => {
                    self.settings.insert_file_value(key, setting.clone(), file_value.clone());
                }
                None => self.settings.insert(key, setting.clone()),
            }
        }
    }

    fn cannot_read(&mut self, setting: &Setting) {
        let keys = spelling::canonical(&setting.written).into_iter();
        self.unread.extend(keys.map(|key| (key, setting.origin.clone())));
    }

    /// Adds the default of Debezium Server, which sends keys, values and headers as JSON with schemas.
    fn add_server_defaults(&mut self) {
        if self.dialect != Dialect::Server {
            return;
        }
        for role in ["key", "value", "header"] {
            let key = format!("{role}.converter");
            if self.settings.get(&key).is_none() {
                let value = spelling::format_class("json").unwrap_or_default().to_owned();
                let written = format!("debezium.format.{role}");
                let setting = Setting { written, value, origin: Origin::ServerDefault, secret: false };
                self.settings.insert(key, setting);
            }
        }
    }
}
