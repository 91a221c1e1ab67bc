//! Command lines of Kafka's own tools, complete, for fixes that can be pasted.

use std::sync::OnceLock;

use super::options::Options;

/// Connection that the lines name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Connection {
    servers: String,
    /// True if the tools need the file of `--command-config`: the brokers want TLS or a login.
    is_secured: bool,
    principal: Option<String>,
}

/// Connection of the first client of this process. An error that a broker has caused knows no options.
static CONNECTION: OnceLock<Connection> = OnceLock::new();

/// Stores the brokers that the lines of this process name. Only the first call has an effect.
pub(super) fn remember(options: &Options) {
    CONNECTION.get_or_init(|| Connection::of(options));
}

/// Returns a line of `kafka-topics.sh`.
pub(crate) fn topics(arguments: &str) -> String {
    known().line("kafka-topics.sh", arguments)
}

/// Returns the same for the brokers of these options.
pub(crate) fn topics_at(options: &Options, arguments: &str) -> String {
    Connection::of(options).line("kafka-topics.sh", arguments)
}

/// Returns the line that sets a property of a topic.
pub(crate) fn set_property(topic: &str, property: &str) -> String {
    let arguments = format!("--alter --entity-type topics --entity-name {topic} --add-config {property}");
    known().line("kafka-configs.sh", &arguments)
}

/// Returns the line that allows operations; `resource` is such as `--topic orders`.
pub(crate) fn allow(operations: &[&str], resource: &str) -> String {
    let connection = known();
    let principal = connection.principal.as_deref().unwrap_or("NAME");
    let operations: String = operations.iter().map(|operation| format!(" --operation {operation}")).collect();
    let arguments =
        format!("--add --allow-principal {}{operations} {resource}", quoted(&format!("User:{principal}")));
    connection.line("kafka-acls.sh", &arguments)
}

/// Returns the remembered connection; before the first client, a placeholder.
fn known() -> Connection {
    let placeholder = || Connection { servers: "HOST:9092".to_owned(), is_secured: false, principal: None };
    CONNECTION.get().cloned().unwrap_or_else(placeholder)
}

impl Connection {
    fn of(options: &Options) -> Self {
        let property = |name: &str| {
            options
                .properties
                .iter()
                .rev()
                .find(|(key, _)| key == name)
                .map(|(_, value)| value.expose().to_owned())
        };
        let protocol = property("security.protocol").unwrap_or_default();
        let servers = options.bootstrap_servers.split(',').map(str::trim).collect::<Vec<_>>().join(",");
        Self {
            servers,
            is_secured: !protocol.is_empty() && !protocol.eq_ignore_ascii_case("plaintext"),
            principal: property("sasl.username"),
        }
    }

    fn line(&self, tool: &str, arguments: &str) -> String {
        let login = if self.is_secured { " --command-config client.properties" } else { "" };
        format!("{tool} --bootstrap-server {}{login} {arguments}", quoted(&self.servers))
    }
}

/// Quotes a word for a shell, if it needs it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:,@%+=/[]".contains(c);
    if !word.contains(['[', ']']) && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::secret::Secret;

    fn options(servers: &str, properties: &[(&str, &str)]) -> Options {
        Options {
            bootstrap_servers: servers.to_owned(),
            properties: properties
                .iter()
                .map(|(key, value)| ((*key).to_owned(), Secret::new(*value)))
                .collect(),
            tokens: None,
            trust_store: None,
            key_store: None,
            login: None,
            connect_timeout: Duration::from_secs(5),
            topic_creation: None,
        }
    }

    #[test]
    fn a_line_names_the_brokers_and_the_login() {
        assert_eq!(
            topics_at(&options("a:9092, b:9092", &[]), "--list"),
            "kafka-topics.sh --bootstrap-server a:9092,b:9092 --list"
        );
        let secured =
            [("security.protocol", "SASL_SSL"), ("sasl.username", "o'x"), ("sasl.password", "hunter2")];
        let connection = Connection::of(&options("[::1]:9092", &secured));
        assert_eq!(
            connection.line("kafka-topics.sh", "--list"),
            "kafka-topics.sh --bootstrap-server '[::1]:9092' --command-config client.properties --list"
        );
        assert_eq!(connection.principal.as_deref(), Some("o'x"));
        assert_eq!(quoted("User:o'x"), r"'User:o'\''x'");
    }
}
