//! What is in force where nobody says anything, for those who are shown a configuration.

use super::settings::Settings;

/// Key, default, and the defaults of guarantees for which it is another: `exactly_once=10000`.
const DEFAULTS: &str = include_str!("defaults.tsv");

/// Stands for the EventRouter's name in a key.
const ALIAS: &str = "<alias>";

/// The keys that nobody says, each with its default.
pub(super) fn unsaid(settings: &Settings) -> Vec<(String, String)> {
    let guarantee =
        settings.value("outboxd.delivery.guarantee").unwrap_or_default().trim().to_ascii_lowercase();
    let router = router(settings);
    let lines = DEFAULTS.lines().skip(1);
    let rows = lines.filter_map(|line| {
        let mut cells = line.split('\t');
        let (key, default) = (cells.next()?, cells.next()?);
        let own = cells.find_map(|cell| cell.split_once('=').filter(|(name, _)| *name == guarantee));
        Some((key, own.map_or(default, |(_, own)| own)))
    });
    let named = rows.filter_map(|(key, default)| {
        let key = match key.contains(ALIAS) {
            true => key.replace(ALIAS, router?),
            false => key.to_owned(),
        };
        let prefix = settings.value("topic.prefix").unwrap_or("<topic.prefix>");
        Some((key, default.replace("<topic.prefix>", prefix)))
    });
    named.filter(|(key, _)| settings.get(key).is_none()).collect()
}

/// The alias of the EventRouter.
fn router(settings: &Settings) -> Option<&str> {
    let types = settings.iter().filter_map(|(key, setting)| {
        let alias = key.strip_prefix("transforms.")?.strip_suffix(".type")?;
        setting.value.trim().ends_with("EventRouter").then_some(alias)
    });
    types.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::{Origin, Setting};

    #[test]
    fn what_is_said_is_no_default_and_others_follow_what_is_said() {
        let mut settings = Settings::default();
        let said = [
            ("outboxd.delivery.guarantee", "exactly_once"),
            ("slot.name", "orders"),
            ("topic.prefix", "shop"),
            ("transforms.mine.type", "io.debezium.transforms.outbox.EventRouter"),
        ];
        for (key, value) in said {
            let (written, value) = (key.to_owned(), value.to_owned());
            settings.insert(
                key.to_owned(),
                Setting { written, value, origin: Origin::CommandLine, secret: false },
            );
        }
        let unsaid = unsaid(&settings);
        let of =
            |wanted: &str| unsaid.iter().find(|(key, _)| key == wanted).map(|(_, default)| default.as_str());
        assert_eq!(of("slot.name"), None);
        assert_eq!(of("publication.name"), Some("dbz_publication"));
        assert_eq!(of("outboxd.inflight.records.max"), Some("10000"));
        assert_eq!(of("outboxd.exactly.once.state.topic"), Some("__outboxd-state.shop"));
        assert_eq!(of("transforms.mine.route.by.field"), Some("aggregatetype"));
        assert!(super::unsaid(&Settings::default()).iter().all(|(key, _)| !key.contains(ALIAS)));
    }
}
