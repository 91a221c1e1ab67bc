//! The connectors in a file: a configuration alone, answers of Kafka Connect's REST API, Kubernetes resources.

use super::{Connector, DocumentError, Member, Node, resource, settings};
use crate::config::source::file::Entry;

/// Members that contain a configuration: Connect's, and those of MSK Connect's API and of Terraform's JSON.
const CONFIGS: [&str; 3] = ["config", "connectorConfiguration", "connector_configuration"];
/// Members that Connect's REST interface adds around a configuration.
const ENVELOPE: [&str; 4] = ["name", "tasks", "type", "initial_state"];
/// Members around a list or a map of connectors.
const LISTS: [&str; 2] = ["connectors", "items"];

/// Format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::config::source) enum Format {
    Json,
    /// YAML, in which a configuration may be nested, as Quarkus reads it.
    Yaml,
}

/// Returns the connectors of a file, at least one.
pub(in crate::config::source) fn find(
    documents: &[Node],
    format: Format,
) -> Result<Vec<Connector>, DocumentError> {
    let mut found =
        FoundConnectors { format, connectors: Vec::new(), workers: Vec::new(), skipped: Vec::new() };
    for document in documents {
        found.add(document, None)?;
    }
    let FoundConnectors { mut connectors, workers, skipped, .. } = found;
    for (connector, cluster) in &mut connectors {
        let worker = workers.iter().find(|(name, _)| cluster.as_ref() == Some(name));
        connector.worker = worker.map_or_else(|| Ok(Vec::new()), |(_, entries)| entries.clone())?;
    }
    if connectors.is_empty() {
        return Err(without_connector(&skipped));
    }
    Ok(connectors.into_iter().map(|(connector, _)| connector).collect())
}

fn without_connector(skipped: &[String]) -> DocumentError {
    let reason = match skipped {
        [] => "there is no configuration in it".to_owned(),
        skipped => format!("there is no connector in it, only {}", skipped.join(", ")),
    };
    let fix = "give the configuration of a connector: its keys, {\"name\": …, \"config\": {…}}, a KafkaConnector, a \
                DebeziumServer, or a ConfigMap with application.properties";
    DocumentError::new(None, reason, fix)
}

pub(super) struct FoundConnectors {
    format: Format,
    /// Connectors, each with the name of its Connect cluster in Kubernetes.
    pub(super) connectors: Vec<(Connector, Option<String>)>,
    /// Settings of Connect clusters, by name. One that cannot be read matters only to its own connectors.
    pub(super) workers: Vec<(String, Result<Vec<Entry>, DocumentError>)>,
    /// Resources that are no connector.
    pub(super) skipped: Vec<String>,
}

impl FoundConnectors {
    pub(super) fn push(&mut self, connector: Connector) {
        self.connectors.push((connector, None));
    }

    /// Adds the connectors of a value. `name` is the key that it has in a map of connectors.
    pub(super) fn add(&mut self, node: &Node, name: Option<&str>) -> Result<(), DocumentError> {
        match node {
            Node::Null => Ok(()),
            Node::Text(_) => Err(only_names()),
            Node::List(items) => items.iter().try_for_each(|item| self.add(item, None)),
            Node::Map(members) if members.is_empty() => self.flat(node, name),
            Node::Map(members) => self.map(node, members, name),
        }
    }

    fn map(&mut self, node: &Node, members: &[Member], name: Option<&str>) -> Result<(), DocumentError> {
        let all = |is: fn(&Node) -> bool| members.iter().all(|member| is(&member.value));
        if node.get("apiVersion").is_some() && node.get("kind").is_some() {
            return resource::add(self, node);
        }
        if let Some(member) = members.iter().find(|member| is_config(member)) {
            return self.enveloped(node, member, name);
        }
        if let (Some(_), Some(message)) = (node.get("error_code"), node.get("message")) {
            let reason = format!("Kafka Connect answered: {}", message.text().unwrap_or_default());
            return Err(DocumentError::new(None, reason, "give the answer of GET /connectors/NAME"));
        }
        let lists = members.iter().filter(|m| LISTS.contains(&m.key.as_str()));
        let lists: Vec<_> = lists.filter(|m| m.value.is_map() || !m.value.items().is_empty()).collect();
        if !lists.is_empty() {
            return lists.into_iter().try_for_each(|member| self.add(&member.value, None));
        }
        if all(|value| value.get("info").is_some_and(Node::is_map)) {
            let info = |m: &Member| m.value.get("info").cloned().unwrap_or(Node::Null);
            return members.iter().try_for_each(|member| self.add(&info(member), Some(&member.key)));
        }
        if all(|value| value.get("status").is_some_and(Node::is_map)) {
            return Err(only_names());
        }
        if all(|value| value.members().iter().any(is_config)) {
            return members.iter().try_for_each(|member| self.add(&member.value, Some(&member.key)));
        }
        self.flat(node, name)
    }

    /// Adds `{"name": …, "config": {…}}`.
    fn enveloped(&mut self, node: &Node, config: &Member, name: Option<&str>) -> Result<(), DocumentError> {
        let mut entries = Vec::new();
        for member in node.members().iter().filter(|member| !is_config(member)) {
            if member.key == "name" || !ENVELOPE.contains(&member.key.as_str()) {
                settings("", &Node::Map(vec![member.clone()]), &mut entries)?;
            }
        }
        if let (None, Some(name)) = (node.get("name"), name) {
            entries.push(Entry { key: "name".to_owned(), value: name.to_owned(), line: config.line });
        }
        settings("", &config.value, &mut entries)?;
        self.push(named(entries));
        Ok(())
    }

    fn flat(&mut self, node: &Node, name: Option<&str>) -> Result<(), DocumentError> {
        let mut entries = Vec::new();
        match self.format {
            Format::Json => settings("", node, &mut entries)?,
            Format::Yaml => nested("", node, &mut entries)?,
        }
        let connector = named(entries);
        self.push(Connector { name: connector.name.or_else(|| name.map(str::to_owned)), ..connector });
        Ok(())
    }
}

fn is_config(member: &Member) -> bool {
    CONFIGS.contains(&member.key.as_str()) && member.value.is_map()
}

fn named(entries: Vec<Entry>) -> Connector {
    let name = entries.iter().rev().find(|entry| entry.key == "name").map(|entry| entry.value.clone());
    Connector { name, entries, ..Connector::default() }
}

fn only_names() -> DocumentError {
    DocumentError::new(
        None,
        "there are only names of connectors in it, no configuration",
        "give the answer of GET /connectors/NAME or of GET /connectors?expand=info",
    )
}

/// Adds the settings of a map that may be nested, as Quarkus reads YAML: keys are joined by dots, `~` is the key of the
/// map itself, and the items of a list are joined by commas.
fn nested(prefix: &str, map: &Node, entries: &mut Vec<Entry>) -> Result<(), DocumentError> {
    for Member { key, line, value } in map.members() {
        let key = match (prefix, key.as_str()) {
            ("", key) => key.to_owned(),
            (prefix, "~") => prefix.to_owned(),
            (prefix, key) => format!("{prefix}.{key}"),
        };
        match value {
            Node::Map(_) => nested(&key, value, entries)?,
            Node::List(items) if items.iter().all(|item| item.text().is_some()) => {
                let items = items.iter().filter_map(Node::text).map(|item| item.replace(',', "\\,"));
                let value = items.collect::<Vec<_>>().join(",");
                entries.push(Entry { key, value, line: *line });
            }
            _ => settings("", &Node::Map(vec![Member { key, line: *line, value: value.clone() }]), entries)?,
        }
    }
    Ok(())
}
