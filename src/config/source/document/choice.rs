//! The choice of one connector of a file: `-c FILE#NAME`.

use super::Connector;
use crate::config::notice::Notice;

/// Returns whether settings look like a connector's or Debezium Server's.
pub(in crate::config::source) fn is_connector(connector: &Connector) -> bool {
    let is_one = |key: &str| {
        key == "connector.class" || key.starts_with("debezium.source.") || key == "database.hostname"
    };
    connector.entries.iter().any(|entry| is_one(&entry.key))
}

/// Returns the connector with a name, or the only one. Of several, the only one for PostgreSQL is chosen, with a notice.
/// The error contains the names to choose from.
pub(in crate::config::source) fn choose(
    connectors: Vec<Connector>,
    wanted: Option<&str>,
) -> Result<Connector, Vec<String>> {
    let names = |connectors: &[Connector]| -> Vec<String> {
        connectors.iter().map(|connector| connector.name.clone().unwrap_or_default()).collect()
    };
    let all = names(&connectors);
    let (mut fitting, others): (Vec<_>, Vec<_>) =
        connectors.into_iter().partition(|connector| match wanted {
            Some(wanted) => connector.name.as_deref() == Some(wanted),
            None => all.len() == 1 || is_postgres(connector),
        });
    match (fitting.len(), fitting.pop()) {
        (1, Some(mut chosen)) => {
            if wanted.is_none() && !others.is_empty() {
                let text = "other connectors of the file; this is its only one for PostgreSQL";
                chosen.notices.push(Notice::ignored(&names(&others).join(", "), text));
            }
            Ok(chosen)
        }
        _ => Err(all),
    }
}

fn is_postgres(connector: &Connector) -> bool {
    let class = connector.entries.iter().rev().find(|entry| entry.key.ends_with("connector.class"));
    class.is_some_and(|class| class.value.rsplit('.').next().is_some_and(|name| name.starts_with("Postgres")))
}
