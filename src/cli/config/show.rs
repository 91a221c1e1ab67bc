use serde_json::json;

use super::args::ShowArgs;
use crate::cli::print;
use crate::cli::text::{clean, columns};
use crate::config::ShownConfig;

/// Where a value was said that nobody said.
const DEFAULT: &str = "default";

/// Key, value, and where it was said.
type Line<'c> = [&'c str; 3];

/// `outboxd config show`.
pub(super) fn show(config: &ShownConfig, args: &ShowArgs) {
    let lines = lines(config, args.all);
    if args.json {
        let settings =
            lines.iter().map(|[key, value, source]| json!({ "key": key, "value": value, "source": source }));
        return print(&format!("{}\n", json!({ "settings": settings.collect::<Vec<_>>() })));
    }
    let said = |[key, value, _]: &Line<'_>| format!("{}={}", clean(key), clean(value));
    if args.sources || args.all {
        let rows: Vec<_> = lines.iter().map(|line @ [_, _, source]| [said(line), clean(source)]).collect();
        return print(&columns(&rows));
    }
    print(&lines.iter().map(|line| said(line) + "\n").collect::<String>());
}

fn lines(config: &ShownConfig, all: bool) -> Vec<Line<'_>> {
    let said = config.settings.iter().map(|it| [it.key.as_str(), it.shown.as_str(), it.source.as_str()]);
    let defaults = config.defaults.iter().filter(|_| all);
    let mut lines: Vec<_> =
        said.chain(defaults.map(|(key, value)| [key.as_str(), value.as_str(), DEFAULT])).collect();
    lines.sort_by_key(|[key, ..]| *key);
    lines
}
