//! The producer's keys: translation of the Java client's names into librdkafka's.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use crate::connect::option::closest;
use crate::kafka::Options;
use crate::secret::Secret;

use super::{bootstrap, credentials, login, topic_creation};
use crate::config::error::Problem;
use crate::config::known::{check, keys};
use crate::config::read::Reader;
use crate::config::source::settings::Setting;

/// Table of the producer's keys. Rows that begin with `rdkafka.` are properties of librdkafka that outboxd controls.
const TABLE: &str = include_str!("producer_keys.tsv");

/// Treatment of a key; see the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// Passed on under the name in the argument.
    Pass,
    /// Passed on if it is in the note's list.
    Choice,
    /// Passed on if it is in the note's range.
    Integer,
    /// Bytes, passed on in KiB.
    Kibibytes,
    /// A socket buffer: Java's -1 is librdkafka's 0.
    Buffer,
    /// Only the argument's values are allowed, for the note's reason.
    Required,
    /// Reported once as not used, with the note's reason.
    Ignored,
    /// Translated by [`credentials`] or read elsewhere.
    Here,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    key: &'static str,
    action: Action,
    argument: &'static str,
    note: &'static str,
}

fn rows() -> &'static [Row] {
    static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| TABLE.lines().skip(1).filter_map(row).collect());
    &ROWS
}

fn row(line: &'static str) -> Option<Row> {
    let mut columns = line.split('\t');
    let key = columns.next()?;
    let action = match columns.next()? {
        "pass" => Action::Pass,
        "choice" => Action::Choice,
        "integer" => Action::Integer,
        "kibibytes" => Action::Kibibytes,
        "buffer" => Action::Buffer,
        "required" => Action::Required,
        "ignored" => Action::Ignored,
        "here" => Action::Here,
        _ => return None,
    };
    let (argument, note) = (columns.next().unwrap_or_default(), columns.next().unwrap_or_default());
    Some(Row { key, action, argument, note })
}

fn lookup(client: &str) -> Option<&'static Row> {
    let matches = |row: &&Row| match row.key.strip_suffix('*') {
        Some(prefix) => client.starts_with(prefix),
        None => row.key == client,
    };
    rows().iter().filter(matches).max_by_key(|row| row.key.len())
}

/// Returns the Java client's keys, without a prefix.
pub(in crate::config) fn known() -> impl Iterator<Item = &'static str> {
    rows().iter().map(|row| row.key).filter(|key| !key.starts_with("rdkafka.") && !key.ends_with('*'))
}

/// Returns whether a canonical key is the producer's, and checked by this module.
pub(in crate::config) fn is_client_key(key: &str) -> bool {
    key.starts_with("producer.") || key.starts_with("rdkafka.")
}

/// librdkafka's properties. `rdkafka.*` overrides other keys.
type Properties = BTreeMap<String, Secret>;

/// Reads the options.
pub(in crate::config) fn options(reader: &mut Reader<'_>, connect_timeout: Duration) -> Options {
    let mut options = read_options(reader, connect_timeout);
    options.login = login::of_files(reader, &options);
    options
}

/// Reads the options, without the source from which the login can be read again.
pub(super) fn read_options(reader: &mut Reader<'_>, connect_timeout: Duration) -> Options {
    let reason = "the Kafka brokers to send to";
    let bootstrap_servers = reader.required("bootstrap.servers", reason, "localhost:9092");
    let mut properties = Properties::new();
    let settings = reader.settings;
    for (key, setting) in settings.iter() {
        if let Some(client) = key.strip_prefix("producer.") {
            match lookup(client) {
                Some(row) => translate(reader, row, setting, &mut properties),
                None => reader.problems.push(unknown(client, setting)),
            }
        }
    }
    let tokens = credentials::translate(reader, &mut properties);
    let trust_store = credentials::trust_store(reader, &mut properties);
    let key_store = credentials::key_store(reader, &mut properties);
    for (key, setting) in settings.iter() {
        let Some(name) = key.strip_prefix("rdkafka.").filter(|name| !name.is_empty()) else { continue };
        match lookup(key) {
            Some(row) => translate(reader, row, setting, &mut properties),
            None => insert(&mut properties, name, setting.value.trim()),
        }
    }
    let topic_creation = topic_creation::options(reader);
    let protocol = properties.get("security.protocol").map(Secret::expose);
    let bootstrap_servers =
        bootstrap::without_protocols(reader, "bootstrap.servers", &bootstrap_servers, protocol);
    Options {
        bootstrap_servers,
        properties: properties.into_iter().collect(),
        trust_store,
        key_store,
        tokens,
        login: None,
        connect_timeout,
        topic_creation,
    }
}

pub(in crate::config) fn insert(properties: &mut Properties, name: &str, value: &str) {
    properties.insert(name.to_owned(), Secret::new(value));
}

fn translate(reader: &mut Reader<'_>, row: &Row, setting: &Setting, properties: &mut Properties) {
    let value = setting.value.trim();
    match row.action {
        Action::Here => {}
        Action::Ignored => check::ignore(&mut reader.notices, row.note, setting),
        Action::Pass => insert(properties, row.argument, &setting.value),
        Action::Required => require(reader, row, setting),
        Action::Choice => match keys::list(row.note).find(|choice| choice.eq_ignore_ascii_case(value)) {
            Some(choice) => insert(properties, row.argument, choice),
            None => reader.invalid(setting, format!("it must be one of {}", row.note)),
        },
        Action::Integer | Action::Kibibytes | Action::Buffer => match integer(row, value) {
            Some(number) => insert(properties, row.argument, &number.to_string()),
            None => {
                let range = row.note.replace("..", " to ");
                reader.invalid(setting, format!("it must be a whole number, {range}"));
            }
        },
    }
}

fn require(reader: &mut Reader<'_>, row: &Row, setting: &Setting) {
    let value = setting.value.trim();
    if value.is_empty() || keys::list(row.argument).any(|allowed| allowed.eq_ignore_ascii_case(value)) {
        return;
    }
    reader.problems.push(Problem::refused(setting, row.note, format!("remove {}", setting.written)));
}

fn integer(row: &Row, value: &str) -> Option<i64> {
    let (least, most) = row.note.split_once("..")?;
    let (least, most): (i64, i64) = (least.parse().ok()?, most.parse().ok()?);
    let number: i64 = value.parse().ok()?;
    if !(least..=most).contains(&number) {
        return None;
    }
    Some(match row.action {
        Action::Kibibytes => number / 1024,
        Action::Buffer => number.max(0),
        _ => number,
    })
}

fn unknown(client: &str, setting: &Setting) -> Problem {
    let prefix = setting.written.strip_suffix(client).unwrap_or("producer.");
    let nearest = closest(client, known().map(str::to_owned));
    Problem::unknown(setting, nearest.map(|nearest| format!("{prefix}{nearest}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{complete_and, notices};
    use crate::key_store::KeyStore;

    #[test]
    fn the_table_is_whole_and_sorted() {
        let lines: Vec<_> = TABLE.lines().collect();
        assert_eq!(lines[0], "key\taction\targument\tnote");
        assert_eq!(rows().len(), lines.len() - 1, "a row has an unknown action");
        assert!(
            lines[1..].is_sorted_by(|a, b| a.split('\t').next() < b.split('\t').next()),
            "unsorted or double"
        );
        for row in rows() {
            let whole = match row.action {
                Action::Here => row.argument.is_empty() && row.note.is_empty(),
                Action::Pass => !row.argument.is_empty() && row.note.is_empty(),
                Action::Choice => !row.argument.is_empty() && keys::list(row.note).count() > 1,
                Action::Integer | Action::Kibibytes | Action::Buffer => {
                    integer(row, row.note.split("..").last().unwrap()).is_some()
                }
                Action::Required | Action::Ignored => !row.note.is_empty(),
            };
            assert!(whole, "{}", row.key);
        }
    }

    #[test]
    fn producer_keys_become_librdkafkas() {
        for line in include_str!("../cases/producer.tsv").lines().skip(1) {
            let (setting, expected) = line.split_once('\t').unwrap_or((line, ""));
            let settings: Vec<_> = setting.split(" + ").collect();
            match complete_and(&settings) {
                Err(error) => {
                    let expected =
                        expected.strip_prefix("error: ").unwrap_or_else(|| panic!("{setting}: {error}"));
                    assert!(error.to_string().contains(expected), "{setting}: {error}");
                    assert!(!error.to_string().contains("hunter2"), "{setting}");
                }
                Ok(config) => match expected.strip_prefix("notice: ") {
                    Some(expected) => assert!(notices(&config).concat().contains(expected), "{setting}"),
                    None => {
                        let shown = |(name, value): &(String, Secret)| format!("{name}={}", value.expose());
                        let (kafka, path) =
                            (&config.kafka, |store: &KeyStore| format!("{}={}", store.option, store.path));
                        let stores = [&kafka.trust_store, &kafka.key_store].into_iter().flatten().map(path);
                        let found: Vec<_> = kafka.properties.iter().map(shown).chain(stores).collect();
                        assert_eq!(found.join(" "), expected, "{setting}");
                        assert_eq!(notices(&config), Vec::<String>::new(), "{setting}");
                    }
                },
            }
        }
    }
}
