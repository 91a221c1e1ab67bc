//! `topic.creation.*`: creation of missing topics.

use std::sync::Arc;

use crate::config::read::Reader;
use crate::kafka::{TopicCreation, TopicGroup, TopicPatterns};

const PREFIX: &str = "topic.creation.";
const ENABLE: &str = "topic.creation.enable";
const GROUPS: &str = "topic.creation.groups";
const DEFAULT: &str = "default";

/// Options of a group that are not settings of a topic.
const OWN: [&str; 4] = ["include", "exclude", "partitions", "replication.factor"];

/// Reads the groups. Returns `None` without any of these keys, and with `topic.creation.enable=false`: the brokers
/// create topics.
pub(in crate::config) fn options(reader: &mut Reader<'_>) -> Option<Arc<TopicCreation>> {
    let enabled = reader.boolean(ENABLE, true);
    let names = group_names(reader);
    let keys = reader.settings.iter().map(|(key, _)| key).filter(|key| key.starts_with(PREFIX));
    let is_asked_for = keys.into_iter().any(|key| key != ENABLE && key != GROUPS) || !names.is_empty();
    if !enabled || !is_asked_for {
        return None;
    }
    refuse_strangers(reader, &names);
    let default = group(reader, DEFAULT, (None, None));
    let unsaid = (Some(default.partitions), Some(default.replication_factor));
    let groups = names.iter().map(|name| group(reader, name, unsaid)).collect();
    let left_alone = reader.filled("errors.deadletterqueue.topic.name").map(str::to_owned);
    Some(Arc::new(TopicCreation::new(groups, default, left_alone)))
}

fn group_names(reader: &Reader<'_>) -> Vec<String> {
    let list = reader.text(GROUPS).unwrap_or_default();
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty() && *name != DEFAULT);
    names.map(str::to_owned).collect()
}

/// Refuses options of a group that `topic.creation.groups` does not name.
fn refuse_strangers(reader: &mut Reader<'_>, names: &[String]) {
    let settings = reader.settings;
    for (key, setting) in settings.iter() {
        let Some(rest) = key.strip_prefix(PREFIX) else { continue };
        if key == ENABLE || key == GROUPS {
            continue;
        }
        let group = rest.split('.').next().unwrap_or(rest);
        if group != DEFAULT && !names.iter().any(|name| name == group) {
            reader.invalid(setting, format!("{GROUPS} does not name the group {group:?}"));
        }
    }
}

/// Reads a group. `unsaid` holds the defaults of partitions and replication factor; without a default the key is
/// required.
fn group(reader: &mut Reader<'_>, name: &str, unsaid: (Option<i32>, Option<i32>)) -> TopicGroup {
    let key = |option: &str| format!("{PREFIX}{name}.{option}");
    let partitions = number(reader, &key("partitions"), unsaid.0);
    let replication_factor = number(reader, &key("replication.factor"), unsaid.1);
    TopicGroup {
        name: name.to_owned(),
        patterns: patterns(reader, name),
        partitions,
        replication_factor,
        settings: topic_settings(reader, name),
    }
}

/// Reads a count of at least 1, or -1 for the brokers' default.
fn number(reader: &mut Reader<'_>, key: &str, unsaid: Option<i32>) -> i32 {
    if unsaid.is_none() && reader.filled(key).is_none() {
        reader.missing(
            key,
            "with topic.creation, topics of no other group are created by it; -1 is the brokers' default",
            &[(key, "-1")],
        );
    }
    let number = reader.integer(key, -1..=i64::from(i16::MAX), unsaid.unwrap_or(-1));
    if let Some(setting) = reader.settings.get(key).filter(|_| number == 0) {
        reader.invalid(setting, "it must be -1, or 1 and more");
    }
    number
}

fn patterns(reader: &mut Reader<'_>, name: &str) -> TopicPatterns {
    if name == DEFAULT {
        return TopicPatterns::default();
    }
    let (include, exclude) = (format!("{PREFIX}{name}.include"), format!("{PREFIX}{name}.exclude"));
    if reader.filled(&include).is_none() {
        reader.missing(&include, "the topics of the group, as regular expressions", &[(&include, ".*")]);
    }
    let lists = (list(reader, &include), list(reader, &exclude));
    TopicPatterns::new(&lists.0, &lists.1).unwrap_or_else(|error| {
        if let Some(setting) = reader.settings.get(&include) {
            reader.invalid(setting, format!("include or exclude is no regular expression: {error}"));
        }
        TopicPatterns::default()
    })
}

fn list(reader: &Reader<'_>, key: &str) -> Vec<String> {
    let text = reader.text(key).unwrap_or_default();
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

fn topic_settings(reader: &Reader<'_>, name: &str) -> Vec<(String, String)> {
    let prefix = format!("{PREFIX}{name}.");
    let below = reader
        .settings
        .iter()
        .filter_map(|(key, setting)| Some((key.strip_prefix(&prefix)?.to_owned(), setting.value.clone())));
    below.filter(|(name, _)| !OWN.contains(&name.as_str())).collect()
}
