//! Canonical names of keys: Debezium Server's and Connect's prefixes are removed.

/// Returns the canonical keys that a written key stands for; `debezium.format.schemas.enable` stands for three.
pub(in crate::config) fn canonical(written: &str) -> Vec<String> {
    if let Some(format) = written.strip_prefix("debezium.format.") {
        return format_keys(format);
    }
    let key = written.strip_prefix("debezium.source.").unwrap_or(written);
    let key =
        key.strip_prefix("debezium.sink.kafka.").filter(|rest| rest.starts_with("producer.")).unwrap_or(key);
    let smt = key
        .strip_prefix("debezium.")
        .filter(|rest| rest.starts_with("transforms") || rest.starts_with("predicates"));
    let key = smt.unwrap_or(key);
    let key = match key.strip_prefix("producer.override.") {
        Some(client) => format!("producer.{client}"),
        None => key.to_owned(),
    };
    vec![if key == "producer.bootstrap.servers" { "bootstrap.servers".to_owned() } else { key }]
}

fn format_keys(format: &str) -> Vec<String> {
    let (role, option) = match format.split_once('.') {
        Some((role, option)) => (role, Some(option)),
        None => (format, None),
    };
    match (role, option) {
        ("key" | "value" | "header", None) => vec![format!("{role}.converter")],
        ("key" | "value" | "header", Some(option)) => vec![format!("{role}.converter.{option}")],
        _ => ["key", "value", "header"].iter().map(|role| format!("{role}.converter.{format}")).collect(),
    }
}

/// Returns the converter class of one of Debezium Server's format names.
pub(in crate::config) fn format_class(name: &str) -> Option<&'static str> {
    match name.trim().to_ascii_lowercase().as_str() {
        "json" | "jsonbytearray" => Some("org.apache.kafka.connect.json.JsonConverter"),
        "simplestring" => Some("org.apache.kafka.connect.storage.StringConverter"),
        "avro" => Some("io.confluent.connect.avro.AvroConverter"),
        "binary" => Some("io.debezium.converters.BinaryDataConverter"),
        _ => None,
    }
}

/// Returns the format name of a converter class.
pub(in crate::config) fn format_name(class: &str) -> Option<&'static str> {
    let names = ["json", "simplestring", "avro", "binary"];
    names.into_iter().find(|name| format_class(name) == Some(class.trim()))
}

/// Returns a canonical key as Debezium Server's files spell it.
pub(in crate::config) fn server_key(key: &str) -> String {
    for role in ["key", "value", "header"] {
        if let Some(rest) = key.strip_prefix(role).and_then(|rest| rest.strip_prefix(".converter")) {
            return format!("debezium.format.{role}{rest}");
        }
    }
    if key.starts_with("transforms") || key.starts_with("predicates") {
        format!("debezium.{key}")
    } else if key.starts_with("producer.") {
        format!("debezium.sink.kafka.{key}")
    } else if key == "bootstrap.servers" {
        format!("debezium.sink.kafka.producer.{key}")
    } else if key.starts_with("outboxd.") || key.starts_with("rdkafka.") || is_of_the_server(key) {
        key.to_owned()
    } else {
        format!("debezium.source.{key}")
    }
}

/// Returns a canonical key as a connector's configuration spells it; `None` for keys that only Debezium Server has.
pub(in crate::config) fn connector_key(key: &str) -> Option<String> {
    if is_of_the_server(key) {
        return None;
    }
    Some(match key.strip_prefix("producer.") {
        Some(client) => format!("producer.override.{client}"),
        None => key.to_owned(),
    })
}

/// Returns whether a canonical key is about Debezium Server itself: its sink, or Quarkus, which it is built on.
fn is_of_the_server(key: &str) -> bool {
    ["debezium.", "quarkus."].iter().any(|prefix| key.starts_with(prefix))
}

/// Returns whether the value of a written key is one of Debezium Server's format names.
pub(in crate::config) fn is_format(written: &str) -> bool {
    matches!(written, "debezium.format.key" | "debezium.format.value" | "debezium.format.header")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prefix_leads_to_one_name() {
        let cases = [
            ("slot.name", "slot.name"),
            ("debezium.source.slot.name", "slot.name"),
            ("debezium.transforms", "transforms"),
            ("debezium.transforms.outbox.type", "transforms.outbox.type"),
            ("debezium.source.transforms.outbox.type", "transforms.outbox.type"),
            ("debezium.predicates.p.type", "predicates.p.type"),
            ("debezium.sink.kafka.producer.linger.ms", "producer.linger.ms"),
            ("producer.override.linger.ms", "producer.linger.ms"),
            ("producer.linger.ms", "producer.linger.ms"),
            ("debezium.sink.kafka.producer.bootstrap.servers", "bootstrap.servers"),
            ("debezium.sink.type", "debezium.sink.type"),
            ("debezium.format.key", "key.converter"),
            ("debezium.format.header.schemas.enable", "header.converter.schemas.enable"),
            ("debezium.slot.name", "debezium.slot.name"),
        ];
        for (written, expected) in cases {
            assert_eq!(canonical(written), [expected], "{written}");
        }
        let keys = [
            "slot.name",
            "transforms.a.type",
            "predicates.p.type",
            "producer.linger.ms",
            "bootstrap.servers",
        ];
        let more =
            ["key.converter", "header.converter.schemas.enable", "outboxd.slot.warn.bytes", "rdkafka.debug"];
        for key in keys.into_iter().chain(more) {
            assert_eq!(canonical(&server_key(key)), [key], "{key}");
        }
        for key in keys.into_iter().chain(more) {
            assert_eq!(canonical(&connector_key(key).unwrap()), [key], "{key}");
        }
        for name in ["json", "simplestring", "avro", "binary"] {
            assert_eq!(format_class(name).and_then(format_name), Some(name));
        }
        let all = ["key", "value", "header"].map(|role| format!("{role}.converter.schemas.enable"));
        assert_eq!(canonical("debezium.format.schemas.enable"), all);
    }
}
