//! Requests to the schema registries, if a converter needs one.

use super::codes;
use super::report::Check;
use crate::registry::{Client, Registries};

/// Returns one check for each registry. A user without access to it is reported as `run` would report it.
pub(super) async fn check(registries: &Registries) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut asked: Vec<&Client> = Vec::new();
    for client in registries.clients() {
        if asked.iter().any(|known| known.is_alike(client)) {
            continue;
        }
        asked.push(client);
        checks.push(match client.probe().await {
            Ok(()) => {
                let login = client.login().await.map(|login| format!(", by {login}")).unwrap_or_default();
                Check::ok(
                    codes::REGISTRY,
                    format!("the schema registry at {} answers{login}", client.addresses()),
                )
            }
            Err(error) => Check::error(codes::REGISTRY, &error),
        });
    }
    checks
}
