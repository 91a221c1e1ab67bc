//! `DebeziumServer`, the resource of Debezium's operator, as the `application.properties` that the operator makes of it.

use super::{DocumentError, Member, Node, settings};
use crate::config::source::file::Entry;

/// Directory of the operator's file stores.
const DATA: &str = "/debezium/data";

/// Returns the settings of a resource.
pub(super) fn entries(spec: &Node) -> Result<Vec<Entry>, DocumentError> {
    let mut properties = Properties::default();
    let source = spec.get("source").unwrap_or(&Node::Null);
    properties.value("debezium.source.connector.class", source.member("class"))?;
    properties.config("debezium.source.", source)?;
    if let Some(offset) = source.get("offset") {
        properties.offset(offset)?;
    }
    if let Some(sink) = spec.get("sink") {
        properties.value("debezium.sink.type", sink.member("type"))?;
        let kind = sink.get("type").and_then(Node::text).unwrap_or("kafka");
        properties.config(&format!("debezium.sink.{kind}."), sink)?;
    }
    for Member { key, value, .. } in spec.get("format").map(Node::members).unwrap_or_default() {
        properties.value(&format!("debezium.format.{key}"), value.member("type"))?;
        properties.config(&format!("debezium.format.{key}."), value)?;
    }
    properties.transforms(spec.member("transforms"))?;
    properties.predicates(spec.member("predicates"))?;
    properties.config("quarkus.", spec.get("quarkus").unwrap_or(&Node::Null))?;
    Ok(properties.entries)
}

#[derive(Default)]
struct Properties {
    entries: Vec<Entry>,
}

impl Properties {
    /// Adds one value under a key of the file.
    fn value(&mut self, key: &str, member: Option<&Member>) -> Result<(), DocumentError> {
        let Some(Member { line, value, .. }) = member else { return Ok(()) };
        let member = Member { key: key.to_owned(), line: *line, value: unescaped(value) };
        settings("", &Node::Map(vec![member]), &mut self.entries)
    }

    /// Adds the `config` of a part of the resource.
    fn config(&mut self, prefix: &str, part: &Node) -> Result<(), DocumentError> {
        let members = part.get("config").map(Node::members).unwrap_or_default();
        members.iter().try_for_each(|member| self.value(&format!("{prefix}{}", member.key), Some(member)))
    }

    fn add(&mut self, key: &str, value: &str, line: Option<usize>) {
        self.entries.push(Entry { key: key.to_owned(), value: value.to_owned(), line });
    }

    /// Adds the transforms, which the operator names by their places in the list.
    fn transforms(&mut self, list: Option<&Member>) -> Result<(), DocumentError> {
        let Some(Member { line, value, .. }) = list else { return Ok(()) };
        let names: Vec<_> = (0..value.items().len()).map(|at| format!("t{at}")).collect();
        if !names.is_empty() {
            self.add("debezium.transforms", &names.join(","), *line);
        }
        for (name, transform) in names.iter().zip(value.items()) {
            let prefix = format!("debezium.transforms.{name}.");
            self.value(&format!("{prefix}type"), transform.member("type"))?;
            if transform.get("predicate").is_some() {
                self.value(&format!("{prefix}predicate"), transform.member("predicate"))?;
                self.value(&format!("{prefix}negate"), transform.member("negate"))?;
            }
            self.config(&prefix, transform)?;
        }
        Ok(())
    }

    fn predicates(&mut self, map: Option<&Member>) -> Result<(), DocumentError> {
        let Some(Member { line, value, .. }) = map else { return Ok(()) };
        let names: Vec<_> = value.members().iter().map(|member| member.key.as_str()).collect();
        if !names.is_empty() {
            self.add("debezium.predicates", &names.join(","), *line);
        }
        for Member { key, value, .. } in value.members() {
            let prefix = format!("debezium.predicates.{key}.");
            self.value(&format!("{prefix}type"), value.member("type"))?;
            self.config(&prefix, value)?;
        }
        Ok(())
    }

    /// Adds the store of the offsets.
    fn offset(&mut self, offset: &Node) -> Result<(), DocumentError> {
        const PREFIX: &str = "debezium.source.offset.";
        self.value(&format!("{PREFIX}flush.interval.ms"), offset.member("flushMs"))?;
        let class = format!("{PREFIX}storage");
        if let Some(file) = offset.member("file") {
            self.add(&class, "org.apache.kafka.connect.storage.FileOffsetBackingStore", file.line);
            let name = file.value.get("fileName").and_then(Node::text).unwrap_or("offsets.dat");
            self.add(&format!("{class}.file.filename"), &format!("{DATA}/{name}"), file.line);
        }
        if let Some(kafka) = offset.member("kafka") {
            self.add(&class, "org.apache.kafka.connect.storage.KafkaOffsetBackingStore", kafka.line);
            self.value(&format!("{class}.topic"), kafka.value.member("topic"))?;
        }
        for (field, type_name) in [
            ("memory", "org.apache.kafka.connect.storage.MemoryOffsetBackingStore"),
            ("redis", "redis"),
            ("jdbc", "jdbc"),
            ("configMap", "configMap"),
        ] {
            if let Some(member) = offset.member(field) {
                self.add(&class, type_name, member.line);
            }
        }
        let store = offset.get("store").unwrap_or(&Node::Null);
        self.value(&class, store.member("type"))?;
        self.config(&format!("{class}."), store)
    }
}

/// Removes the escape of `$${NAME}`: the operator reads the resource once before Debezium Server does.
fn unescaped(value: &Node) -> Node {
    match value {
        Node::Text(text) => Node::Text(text.replace("$${", "${")),
        other => other.clone(),
    }
}
