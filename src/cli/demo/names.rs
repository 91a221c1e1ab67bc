//! Names of the demo's objects, and the configuration that the relay gets.

use crate::cli::shell::address::Address;
use crate::config::Sources;

/// Slot, publication, and on a server that is not ours the schema and the beginning of the topic.
pub(super) const NAME: &str = "outboxd_demo";
/// The transform's alias.
const ROUTER: &str = "transforms.outbox";
const STRING_CONVERTER: &str = "org.apache.kafka.connect.storage.StringConverter";
/// A variable of the configuration's own environment, not of the process.
const PASSWORD_VARIABLE: &str = "DEMO_PASSWORD";

/// The names that depend on whose servers they are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Names {
    /// The schema of `orders` and `outbox`.
    pub(super) schema: &'static str,
    /// Part before `.order` in the topic.
    topic_prefix: &'static str,
}

impl Names {
    pub(super) const fn new(own_postgres: bool, own_kafka: bool) -> Self {
        Self {
            schema: if own_postgres { NAME } else { "public" },
            topic_prefix: if own_kafka { "outboxd_demo.event" } else { "outbox.event" },
        }
    }

    /// Returns `schema.outbox`.
    pub(super) fn outbox(&self) -> String {
        format!("{}.outbox", self.schema)
    }

    /// Returns the topic of the events of orders.
    pub(super) fn topic(&self) -> String {
        format!("{}.order", self.topic_prefix)
    }

    /// Returns the configuration, as `outboxd run -X …` would get it.
    pub(super) fn sources(&self, postgres: &Address, bootstrap_servers: &str) -> Sources {
        let own =
            [("bootstrap.servers", bootstrap_servers.to_owned()), ("table.include.list", self.outbox())];
        let mut settings: Vec<_> =
            postgres.settings().into_iter().chain(own).map(|(key, value)| (key.to_owned(), value)).collect();
        if postgres.password.is_some() {
            settings.push(("database.password".to_owned(), format!("${{env:{PASSWORD_VARIABLE}}}")));
        }
        let fixed = [
            ("plugin.name", "pgoutput"),
            ("topic.prefix", "demo"),
            ("slot.name", NAME),
            ("publication.name", NAME),
            ("publication.autocreate.mode", "disabled"),
            // It leaves nothing behind, and nothing follows it.
            ("outboxd.position.topic", ""),
            ("snapshot.mode", "no_data"),
            ("extended.headers.enabled", "false"),
            ("key.converter", STRING_CONVERTER),
            ("value.converter", STRING_CONVERTER),
            ("transforms", "outbox"),
        ];
        settings.extend(fixed.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let replacement = format!("{}.${{routedByValue}}", self.topic_prefix);
        let router = [
            ("type", "io.debezium.transforms.outbox.EventRouter"),
            ("table.field.event.key", "aggregate_id"),
            ("table.field.event.type", "event_type"),
            ("table.field.event.timestamp", "created_at"),
            ("table.fields.additional.placement", "event_type:header:eventType"),
            ("route.by.field", "aggregate_type"),
            ("route.topic.replacement", &replacement),
        ];
        settings.extend(router.map(|(key, value)| (format!("{ROUTER}.{key}"), value.to_owned())));
        let password = postgres.password.as_ref().map(|password| password.expose().to_owned());
        Sources {
            files: Vec::new(),
            environment: password.into_iter().map(|value| (PASSWORD_VARIABLE.to_owned(), value)).collect(),
            overrides: settings.into_iter().map(|(key, value)| format!("{key}={value}")).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::secret::Secret;

    #[test]
    fn the_configuration_is_one_that_needs_no_notice() {
        for own in [false, true] {
            let password = own.then(|| Secret::new("${env:HOME} and = signs"));
            let address =
                Address { password: password.clone(), ..Address::parse("host=db user=ada").unwrap() };
            let names = Names::new(own, own);
            let config = Config::load(&names.sources(&address, "kafka:9092")).unwrap();
            assert!(config.notices.is_empty(), "{:?}", config.notices);
            assert_eq!(config.postgres.server.password.literal_value(), password.as_ref());
            assert_eq!(config.postgres.tables.table_include, [names.outbox()]);
            let replacement = config.option("transforms.outbox.route.topic.replacement").unwrap();
            assert_eq!(replacement.replace("${routedByValue}", "order"), names.topic());
        }
    }
}
