//! The sources, laid over each other: files, then the environment, then `-X`.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::environment::{self, Variable};
use super::error::Problem;
use super::file::{self, Entry};
use super::notice::Notice;
use super::placeholder::{Resolved, Resolver};
use super::settings::{Origin, Setting, Settings, holds_secret, holds_user};
use super::{converters, profiles, spelling};

/// Where a configuration comes from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Files, in the order they were named; a later one wins.
    pub files: Vec<PathBuf>,
    /// The environment, for keys and for `${env:X}`.
    pub environment: Vec<(String, String)>,
    /// What `-X` said: `key=value`.
    pub overrides: Vec<String>,
}

impl Sources {
    /// Whether nobody has given a configuration: the environment alone may be one.
    pub(crate) fn is_empty(&self) -> bool {
        let ours =
            |name: &str| ["OUTBOXD_DATABASE_", "DEBEZIUM_"].iter().any(|start| name.starts_with(start));
        self.files.is_empty()
            && self.overrides.is_empty()
            && !self.environment.iter().any(|(name, _)| ours(name))
    }
}

/// Whose defaults hold on the wire, and whose spelling a cure uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// A connector in Kafka Connect.
    Connect,
    /// Debezium Server's `application.properties`.
    Server,
}

impl Dialect {
    /// The key as this dialect's files spell it.
    pub(super) fn spelled(self, key: &str) -> String {
        match self {
            Self::Connect => key.to_owned(),
            Self::Server => spelling::server_key(key),
        }
    }

    /// A line that says a key.
    pub(super) fn line(self, key: &str, value: &str) -> String {
        let value = if self == Self::Server { value.replace("${", "$${") } else { value.to_owned() };
        format!("{}={value}", self.spelled(key))
    }

    /// A key that must be said, with the lines that say it.
    pub(super) fn missing(self, key: &str, reason: &str, lines: &[(&str, &str)]) -> Problem {
        let lines: Vec<_> = lines.iter().map(|(key, value)| self.line(key, value)).collect();
        Problem::Missing { key: self.spelled(key), reason: reason.to_owned(), lines: lines.join("\n") }
    }
}

/// What the sources say together.
#[derive(Debug)]
pub(super) struct Layers {
    pub settings: Settings,
    pub dialect: Dialect,
    pub problems: Vec<Problem>,
    pub notices: Vec<Notice>,
    /// What was written where a placeholder was, by canonical key.
    pub said: BTreeMap<String, String>,
    /// Keys whose last value could not be read, by canonical key: what was said before does not hold.
    pub unread: BTreeMap<String, Origin>,
    /// Whether a file before was a Connect worker's.
    behind_worker: bool,
}

/// Reads every source. A file that cannot be read ends it at once: what it would have said cannot be judged.
pub(super) fn collect(sources: &Sources) -> Result<Layers, Problem> {
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
    for path in &sources.files {
        layers.add_file(path, &environment)?;
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
    layers.add_server_defaults();
    Ok(layers)
}

impl Layers {
    fn add_file(&mut self, path: &Path, environment: &HashMap<String, String>) -> Result<(), Problem> {
        let (entries, notice) = profiles::choose(file::read(path)?, environment);
        self.notices.extend(notice);
        let expressions = file::is_server(&entries);
        if expressions {
            self.dialect = Dialect::Server;
        }
        let is_worker = converters::is_worker(&entries);
        let (entries, notices) = converters::lay(&mut self.settings, entries, self.behind_worker);
        self.notices.extend(notices);
        self.behind_worker |= is_worker;
        let resolver = Resolver { environment, expressions };
        // `debezium.format.schemas.enable` is for all three roles and yields to the one that names its role.
        let (named, all): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|e| spelling::canonical(&e.key).len() == 1);
        for Entry { key, value, line } in all.into_iter().chain(named) {
            self.say(key, &value, Origin::File { path: path.into(), line }, resolver);
        }
        Ok(())
    }

    fn add_environment(&mut self, variables: &[(String, String)], environment: &HashMap<String, String>) {
        let names = ["DEBEZIUM_TRANSFORMS", "OUTBOXD_TRANSFORMS", "DEBEZIUM_SOURCE_TRANSFORMS"];
        let said = names.iter().filter_map(|name| environment.get(*name).map(String::as_str));
        let lists: Vec<_> = said.chain(self.settings.value("transforms")).collect();
        let aliases: Vec<_> = lists.join(",").split(',').map(|alias| alias.trim().to_owned()).collect();
        let resolver = Resolver { environment, expressions: false };
        // Ours comes after Debezium Server's, and wins.
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
        match resolver.resolve(value) {
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
        for key in spelling::canonical(&setting.written) {
            if setting.value == value {
                self.said.remove(&key);
            } else {
                self.said.insert(key.clone(), value.to_owned());
            }
            self.unread.remove(&key);
            self.settings.insert(key, setting.clone());
        }
    }

    fn cannot_read(&mut self, setting: &Setting) {
        let keys = spelling::canonical(&setting.written).into_iter();
        self.unread.extend(keys.map(|key| (key, setting.origin.clone())));
    }

    /// Debezium Server sends keys, values and headers as JSON with schemas when nothing else is said.
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
