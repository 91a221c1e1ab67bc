//! Configuration for an outbox, with Debezium's keys. Sans-io.

use super::shape::Shape;
use crate::postgres::TableFacts;

const ROUTER: &str = "transforms.outbox";
const STRINGS: &str = "org.apache.kafka.connect.storage.StringConverter";
/// Maximum length of a slot's name in PostgreSQL, in bytes.
const NAME_BYTES_MAX: usize = 63;

/// Facts that are known before the columns are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Surroundings<'a> {
    pub(super) database: &'a str,
    pub(super) table: &'a TableFacts,
    /// Value of `--topic`.
    pub(super) topic: Option<&'a str>,
    /// True if a program still sends the rows in the table: a snapshot would send them again.
    pub(super) polled: bool,
}

/// Returns the settings that the table needs, in the order in which they are written.
pub(super) fn settings(shape: &Shape, around: Surroundings<'_>) -> Vec<(String, String)> {
    let Surroundings { database, table, topic, polled } = around;
    let name = slot_name(database, table);
    let mut settings = vec![
        ("name".to_owned(), name.clone()),
        ("connector.class".to_owned(), "io.debezium.connector.postgresql.PostgresConnector".to_owned()),
        ("plugin.name".to_owned(), "pgoutput".to_owned()),
        ("topic.prefix".to_owned(), topic_prefix(database)),
        ("slot.name".to_owned(), name.clone()),
        ("publication.name".to_owned(), name),
        ("table.include.list".to_owned(), pattern(table)),
    ];
    let mut add = |key: &str, value: &str| settings.push((key.to_owned(), value.to_owned()));
    if table.partitioned {
        add("publish.via.partition.root", "true");
    }
    if polled {
        add("snapshot.mode", "no_data");
    }
    add("transforms", "outbox");
    add(&format!("{ROUTER}.type"), "io.debezium.transforms.outbox.EventRouter");
    let topic = topic.or(shape.replacement.as_deref());
    // One topic for all needs no expression.
    let regex = shape.regex.as_deref().filter(|_| topic.is_some_and(|topic| topic.contains("${")));
    let defaults = [
        ("table.field.event.id", Some(shape.id.as_str()), "id"),
        ("table.field.event.key", Some(&shape.key), "aggregateid"),
        ("table.field.event.type", shape.event_type.as_deref(), "type"),
        ("table.field.event.payload", Some(&shape.payload), "payload"),
        ("route.by.field", Some(&shape.route), "aggregatetype"),
        ("route.topic.regex", regex, ""),
        ("route.topic.replacement", topic, ""),
    ];
    for (key, value, default) in defaults {
        if let Some(value) = value.filter(|value| *value != default) {
            add(&format!("{ROUTER}.{key}"), value);
        }
    }
    if !shape.placement.is_empty() {
        add(&format!("{ROUTER}.table.fields.additional.placement"), &shape.placement.join(","));
    }
    add("key.converter", STRINGS);
    add("value.converter", STRINGS);
    settings
}

/// Returns the name of a slot. It is unique on the server, so it contains the database and the schema: of two outboxes
/// with one slot, one would wait forever.
fn slot_name(database: &str, table: &TableFacts) -> String {
    let schema = if table.schema == "public" { String::new() } else { format!("{}_", table.schema) };
    database_name(database, &format!("{schema}{}", table.name))
}

/// Returns a name for slot and publication.
pub(super) fn database_name(database: &str, what: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    format!("{database}_{what}").chars().map(plain).take(NAME_BYTES_MAX).collect()
}

pub(super) fn topic_prefix(database: &str) -> String {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    database.chars().map(|c| if legal(c) { c } else { '_' }).collect()
}

/// Returns the table's name as a regular expression. The dot between schema and table is not escaped, as in all
/// examples.
pub(super) fn pattern(table: &TableFacts) -> String {
    let escaped = |name: &str| -> String {
        name.chars()
            .flat_map(|c| {
                let escape = !c.is_alphanumeric() && c != '_' && c != '-';
                escape.then_some('\\').into_iter().chain(std::iter::once(c))
            })
            .collect()
    };
    format!("{}.{}", escaped(&table.schema), escaped(&table.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::Oid;

    fn table(schema: &str, name: &str) -> TableFacts {
        TableFacts {
            oid: Oid(1),
            schema: schema.to_owned(),
            name: name.to_owned(),
            partitioned: false,
            root: None,
            logged: true,
            columns: Vec::new(),
        }
    }

    #[test]
    fn names_are_what_servers_take() {
        assert_eq!(slot_name("Orders-DB", &table("public", "outbox.1")), "orders_db_outbox_1");
        assert_eq!(slot_name("orders", &table("billing", "outbox")), "orders_billing_outbox");
        assert_eq!(slot_name(&"ä".repeat(70), &table("public", "outbox")).len(), 63);
        assert_eq!(topic_prefix("Orders DB"), "Orders_DB");
        assert_eq!(pattern(&table("public", "outbox")), "public.outbox");
        assert_eq!(pattern(&table("my schema", "out$box")), "my\\ schema.out\\$box");
    }

    #[test]
    fn defaults_of_debezium_are_not_written() {
        let columns = ["id", "aggregatetype", "aggregateid", "type", "payload"];
        let columns = columns.map(|column| (column.to_owned(), "text".to_owned()));
        let shape = Shape::of("outbox", &columns, None).unwrap();
        let table = table("public", "outbox");
        let around = Surroundings { database: "orders", table: &table, topic: None, polled: false };
        let keys: Vec<_> = settings(&shape, around).into_iter().map(|(key, _)| key).collect();
        let router: Vec<_> = keys.iter().filter(|key| key.starts_with("transforms.outbox.")).collect();
        assert_eq!(router, ["transforms.outbox.type", "transforms.outbox.table.fields.additional.placement"]);
        assert!(!keys.iter().any(|key| key == "snapshot.mode"));
        let polled = Surroundings { polled: true, topic: Some("orders"), ..around };
        let settings = settings(&shape, polled);
        assert!(settings.contains(&("snapshot.mode".to_owned(), "no_data".to_owned())));
        assert!(
            settings.contains(&("transforms.outbox.route.topic.replacement".to_owned(), "orders".to_owned()))
        );
    }
}
