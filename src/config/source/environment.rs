//! Environment variables: `DEBEZIUM_SOURCE_SLOT_NAME` as Debezium Server spells it, and `OUTBOXD_SLOT_NAME`.
//!
//! A variable's name has no dots, dashes or lower case, so it is mapped to its key through the table of known keys.

use crate::config::brokers::producer;
use crate::config::known::keys;
use crate::connect::option::closest;

/// Variables with outboxd's prefixes that configure something else: the program itself, images, launch scripts.
const FOREIGN: [&str; 10] = [
    "DEBEZIUM_CONFIG",
    "DEBEZIUM_HOME",
    "DEBEZIUM_OPTS",
    "DEBEZIUM_SERVER_HOME",
    "DEBEZIUM_SERVER_VERSION",
    "DEBEZIUM_VERSION",
    "OUTBOXD_CONFIG",
    "OUTBOXD_HTTP",
    "OUTBOXD_LOG",
    "OUTBOXD_LOG_FORMAT",
];

/// Meaning of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::config) enum Variable {
    /// Not a setting.
    Foreign,
    /// A setting, under this key as a file would write it.
    Key(String),
    /// A name with one of outboxd's prefixes that stands for no key.
    Unknown {
        /// Most similar variable, if there is one.
        nearest: Option<String>,
    },
}

/// Maps a variable to its key. `aliases` are the configured names of the transforms.
pub(in crate::config) fn variable(name: &str, value: &str, aliases: &[String]) -> Variable {
    if FOREIGN.contains(&name) || name.starts_with("OUTBOXD_TEST_") || is_service_link(name, value) {
        return Variable::Foreign;
    }
    let key = if let Some(rest) = name.strip_prefix("DEBEZIUM_") {
        server_key(rest, aliases)
    } else if let Some(rest) = name.strip_prefix("OUTBOXD_") {
        exact(name).or_else(|| connector_key(rest, aliases))
    } else {
        return Variable::Foreign;
    };
    key.map_or_else(|| Variable::Unknown { nearest: nearest(name) }, Variable::Key)
}

/// Returns whether a variable describes a service, which Kubernetes sets for each one: its name may begin like
/// outboxd's variables.
fn is_service_link(name: &str, value: &str) -> bool {
    let address = ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    let (_, port) = name.split_once("_PORT_").unwrap_or_default();
    let is_port = port.starts_with(|c: char| c.is_ascii_digit());
    address || is_port || name.ends_with("_SERVICE_HOST") || name.contains("_SERVICE_PORT")
}

fn server_key(rest: &str, aliases: &[String]) -> Option<String> {
    if let Some(option) = rest.strip_prefix("SOURCE_") {
        return connector_key(option, aliases).map(|key| format!("debezium.source.{key}"));
    }
    if let Some(client) = rest.strip_prefix("SINK_KAFKA_PRODUCER_") {
        return producer_key(client).map(|key| format!("debezium.sink.kafka.producer.{key}"));
    }
    if rest.starts_with("TRANSFORMS") || rest.starts_with("PREDICATES") {
        return connector_key(rest, aliases).map(|key| format!("debezium.{key}"));
    }
    let dotted = format!("debezium.{}", dotted(rest));
    let is_format = dotted.starts_with("debezium.format.");
    (is_format || keys::lookup(&dotted).is_some()).then_some(dotted)
}

/// Returns the canonical key of a name without its prefix.
fn connector_key(rest: &str, aliases: &[String]) -> Option<String> {
    if let Some(client) = rest.strip_prefix("PRODUCER_OVERRIDE_").or_else(|| rest.strip_prefix("PRODUCER_")) {
        return producer_key(client).map(|key| format!("producer.{key}"));
    }
    exact(rest).or_else(|| transform_option(rest, aliases)).or_else(|| prefixed(rest))
}

fn exact(rest: &str) -> Option<String> {
    let exact = keys::rows().iter().map(|row| row.pattern).find(|pattern| shouted(pattern) == rest);
    exact.map(str::to_owned)
}

fn producer_key(client: &str) -> Option<String> {
    producer::known().find(|key| shouted(key) == client).map(str::to_owned)
}

/// Maps a name such as `TRANSFORMS_OUTBOX_ROUTE_BY_FIELD`. The rest of the name before the longest matching option is
/// the alias.
fn transform_option(rest: &str, aliases: &[String]) -> Option<String> {
    let fits = |pattern: &'static str| {
        let (before, after) = pattern.split_once("<alias>")?;
        let alias = rest.strip_prefix(&shouted(before))?.strip_suffix(&shouted(after))?;
        (!alias.is_empty()).then_some((after.len(), before, alias, after))
    };
    let rows = keys::rows().iter();
    let (_, before, alias, after) = rows.filter_map(|row| fits(row.pattern)).max_by_key(|fit| fit.0)?;
    let declared = aliases.iter().find(|declared| shouted(declared) == alias);
    let alias = declared.cloned().unwrap_or_else(|| alias.to_ascii_lowercase());
    Some(format!("{before}{alias}{after}"))
}

/// Maps a name such as `KEY_CONVERTER_SCHEMAS_ENABLE`: after a prefix that accepts any option, underscores are dots.
fn prefixed(rest: &str) -> Option<String> {
    let prefixes = keys::rows().iter().filter_map(|row| row.pattern.strip_suffix('*'));
    let prefix =
        prefixes.filter(|prefix| rest.starts_with(&shouted(prefix))).max_by_key(|prefix| prefix.len())?;
    let tail = rest.get(prefix.len()..).filter(|tail| !tail.is_empty())?;
    Some(format!("{prefix}{}", dotted(tail)))
}

fn nearest(name: &str) -> Option<String> {
    let patterns = keys::rows().iter().map(|row| row.pattern).filter(|pattern| !pattern.ends_with('*'));
    let spelled = patterns.map(|pattern| shouted(&pattern.replace("<alias>", "outbox")));
    let clients = producer::known().map(shouted);
    if name.starts_with("OUTBOXD_") {
        let own = |key: String| if key.starts_with("OUTBOXD_") { key } else { format!("OUTBOXD_{key}") };
        return closest(name, spelled.chain(clients.map(|key| format!("PRODUCER_{key}"))).map(own));
    }
    let server = |key: String| match key.starts_with("TRANSFORMS") || key.starts_with("PREDICATES") {
        true => format!("DEBEZIUM_{key}"),
        false => format!("DEBEZIUM_SOURCE_{key}"),
    };
    let clients = clients.map(|key| format!("DEBEZIUM_SINK_KAFKA_PRODUCER_{key}"));
    closest(name, spelled.map(server).chain(clients))
}

/// Returns the name of outboxd's variable that sets a key.
pub(in crate::config) fn own_name(key: &str) -> String {
    let name = shouted(key);
    if name.starts_with("OUTBOXD_") { name } else { format!("OUTBOXD_{name}") }
}

/// Returns a key as it is spelled in a variable's name.
fn shouted(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

fn dotted(rest: &str) -> String {
    rest.to_ascii_lowercase().replace('_', ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_lead_back_to_keys() {
        let table = include_str!("../cases/environment.tsv");
        for line in table.lines().skip(1) {
            let (name, expected) = line.split_once('\t').unwrap();
            let found = match variable(name, "x", &["myOutbox".into()]) {
                Variable::Foreign => "(foreign)".to_owned(),
                Variable::Key(key) => key,
                Variable::Unknown { nearest } => format!("(unknown) {}", nearest.unwrap_or_default()),
            };
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn a_service_link_is_recognized_by_its_value() {
        assert_eq!(variable("OUTBOXD_PORT", "tcp://10.0.0.7:8080", &[]), Variable::Foreign);
        assert!(matches!(variable("OUTBOXD_PORT", "8080", &[]), Variable::Unknown { .. }));
    }
}
