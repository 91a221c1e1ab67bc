//! Kubernetes resources: `KafkaConnector` and `KafkaConnect` of Strimzi, `DebeziumServer`, files in a `ConfigMap` or `Secret`.

use base64::prelude::{BASE64_STANDARD, Engine as _};

use super::connectors::FoundConnectors;
use super::{Connector, DocumentError, Member, Node, choice, kafka_connect, server, settings};
use crate::config::notice::Notice;
use crate::config::source::file::parse;

/// Label of a `KafkaConnector` with the name of its Connect cluster.
const CLUSTER: &str = "strimzi.io/cluster";

/// Adds the connectors of a resource.
pub(super) fn add(found: &mut FoundConnectors, resource: &Node) -> Result<(), DocumentError> {
    let kind = resource.get("kind").and_then(Node::text).unwrap_or_default();
    let name = metadata(resource, "name").and_then(Node::text);
    let spec = resource.get("spec").unwrap_or(&Node::Null);
    match kind {
        "KafkaConnector" => {
            let labels = metadata(resource, "labels");
            let cluster = labels.and_then(|labels| labels.get(CLUSTER)).and_then(Node::text);
            found.connectors.push((connector(resource, name, spec)?, cluster.map(str::to_owned)));
        }
        "KafkaConnect" => {
            found.workers.push((name.unwrap_or_default().to_owned(), kafka_connect::worker(spec)));
            found.skipped.push(shown(kind, name));
        }
        "DebeziumServer" => {
            let entries = server::entries(spec)?;
            found.push(Connector { name: name.map(str::to_owned), entries, ..Connector::default() });
        }
        "ConfigMap" | "Secret" => files(found, resource, kind, name)?,
        "List" => {
            for item in resource.get("items").map(Node::items).unwrap_or_default() {
                found.add(item, None)?;
            }
        }
        _ => found.skipped.push(shown(kind, name)),
    }
    Ok(())
}

fn metadata<'r>(resource: &'r Node, key: &str) -> Option<&'r Node> {
    resource.get("metadata")?.get(key)
}

fn shown(kind: &str, name: Option<&str>) -> String {
    format!("{kind} {}", name.unwrap_or("without a name"))
}

/// Returns the connector as Strimzi's operator posts it to Connect.
fn connector(resource: &Node, name: Option<&str>, spec: &Node) -> Result<Connector, DocumentError> {
    let mut entries = Vec::new();
    let named = resource.get("metadata").unwrap_or(&Node::Null);
    for (from, field, key) in
        [(named, "name", "name"), (spec, "class", "connector.class"), (spec, "tasksMax", "tasks.max")]
    {
        if let Some(Member { line, value, .. }) = from.member(field) {
            let member = Member { key: key.to_owned(), line: *line, value: value.clone() };
            settings("", &Node::Map(vec![member]), &mut entries)?;
        }
    }
    settings("", spec.get("config").unwrap_or(&Node::Null), &mut entries)?;
    let text = |key: &str| spec.get(key).and_then(Node::text).unwrap_or_default().to_ascii_lowercase();
    let mut notices = Vec::new();
    if text("pause") == "true" {
        notices.push(not_paused("spec.pause"));
    }
    if matches!(text("state").as_str(), "paused" | "stopped") {
        notices.push(not_paused("spec.state"));
    }
    Ok(Connector { name: name.map(str::to_owned), worker: Vec::new(), entries, notices })
}

fn not_paused(key: &str) -> Notice {
    Notice::ignored(key, "outboxd sends as soon as it runs: stop the process to pause it")
}

/// Adds the connectors of the files in a `ConfigMap` or `Secret`, or its own keys if they are a connector's.
fn files(
    found: &mut FoundConnectors,
    resource: &Node,
    kind: &str,
    name: Option<&str>,
) -> Result<(), DocumentError> {
    let before = found.connectors.len();
    for (section, is_encoded) in [("data", kind == "Secret"), ("stringData", false)] {
        let data = resource.get(section).unwrap_or(&Node::Null);
        if data.get("connector.class").is_some() || data.get("debezium.source.connector.class").is_some() {
            let mut entries = Vec::new();
            settings("", data, &mut entries)?;
            entries.iter_mut().filter(|_| is_encoded).for_each(|entry| entry.value = decoded(&entry.value));
            found.push(Connector { name: name.map(str::to_owned), entries, ..Connector::default() });
            continue;
        }
        for Member { key, line, value } in data.members() {
            let text = value.text().unwrap_or_default();
            let (text, line) = if is_encoded { (decoded(text), None) } else { (text.to_owned(), *line) };
            let Ok(connectors) = parse(key.as_ref(), text.as_bytes()) else { continue };
            for mut connector in connectors.into_iter().filter(choice::is_connector) {
                connector.name = connector.name.or_else(|| Some(key.clone()));
                let entries = connector.entries.iter_mut().chain(&mut connector.worker);
                // The text is a literal block, which begins at the line after its key.
                entries.for_each(|entry| entry.line = line.and_then(|line| line.checked_add(entry.line?)));
                found.push(connector);
            }
        }
    }
    if found.connectors.len() == before {
        found.skipped.push(shown(kind, name));
    }
    Ok(())
}

fn decoded(text: &str) -> String {
    let compact: String = text.split_whitespace().collect();
    let bytes = BASE64_STANDARD.decode(compact).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
