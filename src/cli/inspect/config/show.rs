//! `outboxd config show`.

use serde_json::json;

use super::args::ShowArgs;
use crate::cli::print;
use crate::cli::shell::text::{clean, columns};
use crate::config::{ConfigError, ShownConfig};
use crate::error::chain;

/// Source of a value that is not set.
const DEFAULT: &str = "default";

/// Text for a value that could not be read; the mistake has the reason.
const UNREAD: &str = "(cannot be read)";

/// Key, value if it could be read, and its source.
type Line<'c> = (&'c str, Option<&'c str>, &'c str);

/// Runs `outboxd config show`.
pub(super) fn show(config: &ShownConfig, mistakes: Option<&ConfigError>, args: &ShowArgs) {
    let lines = lines(config, args.all);
    if args.json {
        return print(&as_json(config, mistakes, args.all));
    }
    let said = |(key, value, _): &Line<'_>| format!("{}={}", clean(key), clean(value.unwrap_or(UNREAD)));
    if args.sources || args.all {
        let rows: Vec<_> = lines.iter().map(|line| [said(line), clean(line.2)]).collect();
        return print(&columns(&rows));
    }
    print(&lines.iter().map(|line| said(line) + "\n").collect::<String>());
}

/// Returns the settings, masked, and the mistakes as one JSON object.
pub(in crate::cli) fn as_json(config: &ShownConfig, mistakes: Option<&ConfigError>, all: bool) -> String {
    let settings = lines(config, all)
        .iter()
        .map(|(key, value, source)| json!({ "key": key, "value": value, "source": source }))
        .collect::<Vec<_>>();
    let mistakes = mistakes.into_iter().flat_map(ConfigError::problems);
    let mistakes: Vec<_> = mistakes.map(|mistake| chain(mistake)).collect();
    format!("{}\n", json!({ "settings": settings, "mistakes": mistakes }))
}

fn lines(config: &ShownConfig, all: bool) -> Vec<Line<'_>> {
    let said = config.settings.iter().filter(|it| !config.unread.iter().any(|(unread, _)| *unread == it.key));
    let said = said.map(|it| (it.key.as_str(), Some(it.shown.as_str()), it.source.as_str()));
    let unread = config.unread.iter().map(|(key, source)| (key.as_str(), None, source.as_str()));
    let defaults = config.defaults.iter().filter(|_| all);
    let defaults = defaults.map(|(key, value)| (key.as_str(), Some(value.as_str()), DEFAULT));
    let mut lines: Vec<_> = said.chain(unread).chain(defaults).collect();
    lines.sort_by_key(|(key, ..)| *key);
    lines
}
