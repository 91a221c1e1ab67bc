//! Defaults of the keys that are not set, for the display of a configuration.

use crate::config::features::guarantee;
use crate::config::features::router;
use crate::config::read::Reader;
use crate::config::source::layers::Dialect;
use crate::config::source::settings::{MASK, Settings};

/// Key, default, and the defaults of guarantees for which it differs: `exactly_once=10000`. `changes` marks an option
/// that has an effect on change events only.
const DEFAULTS: &str = include_str!("defaults.tsv");

/// Placeholder for the EventRouter's name in a key.
const ALIAS: &str = "<alias>";
/// Mark of an option of change events.
const CHANGES: &str = "changes";
/// Keys whose values are parts of a default, and the text for each that is not set.
const PARTS: [(&str, &str); 2] = [("topic.prefix", "<topic.prefix>"), ("topic.delimiter", ".")];

/// Returns the keys that are not set, each with its default.
pub(in crate::config) fn unsaid(settings: &Settings, dialect: Dialect) -> Vec<(String, String)> {
    let guarantee = guarantee::name(settings);
    let sends_changes = !router::is_outbox(&Reader::new(settings, dialect));
    let alias = alias(settings);
    let lines = DEFAULTS.lines().skip(1);
    let rows = lines.filter_map(|line| {
        let mut cells = line.split('\t');
        let (key, default) = (cells.next()?, cells.next()?);
        let further: Vec<_> = cells.collect();
        if further.contains(&CHANGES) && !sends_changes {
            return None;
        }
        let own = further.iter().find_map(|cell| cell.split_once('=').filter(|(name, _)| *name == guarantee));
        let default =
            if key == guarantee::GUARANTEE { &guarantee } else { own.map_or(default, |(_, own)| own) };
        let key = match key.contains(ALIAS) {
            true => key.replace(ALIAS, alias?),
            false => key.to_owned(),
        };
        Some((key, filled(default, settings)))
    });
    rows.filter(|(key, _)| settings.get(key).is_none()).collect()
}

/// Returns a default with its parts filled in. Secret values are masked.
fn filled(default: &str, settings: &Settings) -> String {
    PARTS.iter().fold(default.to_owned(), |text, (key, unsaid)| {
        let said =
            settings.get(key).map(|setting| if setting.secret { MASK } else { setting.value.as_str() });
        text.replace(&format!("<{key}>"), said.unwrap_or(unsaid))
    })
}

/// Returns the alias of the EventRouter.
fn alias(settings: &Settings) -> Option<&str> {
    let types = settings.iter().filter_map(|(key, setting)| {
        let alias = key.strip_prefix("transforms.")?.strip_suffix(".type")?;
        setting.value.trim().ends_with("EventRouter").then_some(alias)
    });
    types.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::source::settings::{Origin, Setting};
    use crate::config::source::spelling::canonical;

    fn settings(said: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::default();
        for (key, value) in said {
            let (written, value) = ((*key).to_owned(), (*value).to_owned());
            let setting = Setting { written, value, origin: Origin::CommandLine, secret: false };
            settings.insert((*key).to_owned(), setting);
        }
        settings
    }

    /// Returns the default of a key that is not set.
    fn of(settings: &Settings, wanted: &str) -> Option<String> {
        let unsaid = unsaid(settings, Dialect::Connect);
        unsaid.into_iter().find(|(key, _)| key == wanted).map(|(_, default)| default)
    }

    const ROUTER: [(&str, &str); 2] =
        [("transforms", "mine"), ("transforms.mine.type", "io.debezium.transforms.outbox.EventRouter")];

    #[test]
    fn keys_that_are_set_have_no_default_and_other_defaults_follow_them() {
        let [list, class] = ROUTER;
        let exactly_once = ("outboxd.delivery.guarantee", "exactly_once");
        let [required, requested] = ["Required", "requested"].map(|value| ("exactly.once.support", value));
        let shop = ("topic.prefix", "shop");
        /// Settings, a key that is not set, and its default.
        type Case<'c> = (&'c [(&'c str, &'c str)], &'c str, Option<&'c str>);
        let cases: [Case<'_>; 17] = [
            (&[("slot.name", "orders")], "slot.name", None),
            (&[], "publication.name", Some("dbz_publication")),
            (&[exactly_once], "outboxd.inflight.records.max", Some("10000")),
            (&[exactly_once], "outboxd.delivery.guarantee", None),
            (&[required], "outboxd.delivery.guarantee", Some("exactly_once")),
            (&[required], "outboxd.inflight.records.max", Some("10000")),
            (&[required], "outboxd.inflight.bytes.max", Some("16777216")),
            (&[requested], "outboxd.delivery.guarantee", Some("at_least_once")),
            (&[requested], "outboxd.inflight.records.max", Some("3500")),
            (&[], "producer.transaction.timeout.ms", Some("60000")),
            (&[("producer.transaction.timeout.ms", "5000")], "producer.transaction.timeout.ms", None),
            (&[shop], "outboxd.exactly.once.state.topic", Some("__outboxd-state.shop")),
            (
                &[shop, ("topic.delimiter", "_")],
                "outboxd.exactly.once.state.topic",
                Some("__outboxd-state_shop"),
            ),
            (&[list, class], "transforms.mine.route.by.field", Some("aggregatetype")),
            (&[list, class], "tombstones.on.delete", None),
            (&[], "tombstones.on.delete", Some("true")),
            (
                &[("transforms", "mine,other"), class, ("transforms.other.type", "Other")],
                "unavailable.value.placeholder",
                Some("__debezium_unavailable_value"),
            ),
        ];
        for (said, key, expected) in cases {
            assert_eq!(of(&settings(said), key).as_deref(), expected, "{said:?} {key}");
        }
    }

    #[test]
    fn no_default_shows_what_came_through_a_placeholder() {
        let mut settings = settings(&[("topic.delimiter", "_")]);
        let (written, value) = ("topic.prefix".to_owned(), "hunter2".to_owned());
        settings.insert(
            "topic.prefix".to_owned(),
            Setting { written, value, origin: Origin::CommandLine, secret: true },
        );
        assert_eq!(of(&settings, "outboxd.exactly.once.state.topic").unwrap(), "__outboxd-state_********");
        assert!(!format!("{:?}", unsaid(&settings, Dialect::Connect)).contains("hunter2"));
    }

    #[test]
    fn keys_are_those_that_settings_have() {
        for (key, _) in unsaid(&settings(&ROUTER), Dialect::Connect) {
            assert_eq!(canonical(&key), std::slice::from_ref(&key));
        }
        assert!(unsaid(&Settings::default(), Dialect::Connect).iter().all(|(key, _)| !key.contains(ALIAS)));
    }
}
