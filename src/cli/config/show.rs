use serde_json::json;

use super::args::ShowArgs;
use crate::cli::print;
use crate::cli::text::{clean, columns};
use crate::config::{ShownConfig, ShownSetting};

/// `outboxd config show`.
pub(super) fn show(config: &ShownConfig, args: &ShowArgs) {
    if args.json {
        let settings = config.settings.iter().map(
            |ShownSetting { key, shown, source, .. }| json!({ "key": key, "value": shown, "source": source }),
        );
        return print(&format!("{}\n", json!({ "settings": settings.collect::<Vec<_>>() })));
    }
    let line = |setting: &ShownSetting| format!("{}={}", clean(&setting.key), clean(&setting.shown));
    if args.sources {
        let rows: Vec<_> =
            config.settings.iter().map(|setting| [line(setting), clean(&setting.source)]).collect();
        return print(&columns(&rows));
    }
    print(&config.settings.iter().map(|setting| line(setting) + "\n").collect::<String>());
}
