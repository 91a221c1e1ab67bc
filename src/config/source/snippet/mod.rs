//! Connectors in other notations: Terraform, ksqlDB, and the keys of Confluent Cloud's managed connectors.

pub(super) mod cloud;
mod ksql;
mod terraform;

use super::document::Connector;

/// Returns the connectors of a text in one of these notations; `None` if it is in neither.
pub(super) fn parse(text: &str) -> Option<Vec<Connector>> {
    let connectors = if terraform::is_terraform(text) { terraform::parse(text) } else { ksql::parse(text) };
    (!connectors.is_empty()).then_some(connectors)
}
