//! The configuration of librdkafka's clients, with the settings that no option may override.

use rdkafka::ClientConfig;
use rdkafka::producer::BaseProducer;

use super::login::{Login, Property};
use super::options::Options;
use super::{token_callback, tool_lines};
use crate::error::chain;

/// Settings that the guarantees depend on; the configuration cannot override them.
const GUARANTEES: [(&str, &str); 8] = [
    ("acks", "all"),
    ("enable.idempotence", "true"),
    // A refused record stops the producer before anything behind it is written.
    ("enable.gapless.guarantee", "true"),
    ("max.in.flight", "5"),
    // No finite give-up: a record that timed out would leave a gap that later ones are written past.
    ("message.timeout.ms", "0"),
    // The Java client's partitioner.
    ("partitioner", "murmur2_random"),
    // The in-flight window is the limit: librdkafka's queue must never be the one that is full.
    ("queue.buffering.max.messages", "0"),
    ("queue.buffering.max.kbytes", "2147483647"),
];

/// Settings where librdkafka's defaults are unsuitable; the configuration may override them.
const DEFAULTS: [(&str, &str); 7] = [
    ("client.id", "outboxd"),
    // Larger ones are sent from where they are, and not copied into the batch. librdkafka's own limit is 64 kB.
    ("message.copy.max.bytes", "1024"),
    // The broker's limit decides, not the client's.
    ("message.max.bytes", "104857600"),
    // Half of it is also what the second connection of a start waits for.
    ("reconnect.backoff.ms", "20"),
    ("reconnect.backoff.max.ms", "5000"),
    ("socket.keepalive.enable", "true"),
    ("topic.metadata.propagation.max.ms", "10000"),
];

/// Returns the configuration of librdkafka.
pub(super) fn client_config(options: &Options) -> ClientConfig {
    let login = options.login.as_ref().map(Login::properties);
    client_config_with(options, &login.unwrap_or_default())
}

/// Reads the login's files again, and returns whether they have changed. New clients have what they have. Blocks.
///
/// # Errors
/// When a file cannot be read, or librdkafka cannot use it; the last login remains.
pub(crate) fn refresh_login(options: &Options) -> Result<bool, String> {
    let Some(login) = &options.login else { return Ok(false) };
    // It opens connections in the background, and ends at once.
    let test =
        |properties: &[Property]| client_config_with(options, properties).create().map(|_: BaseProducer| ());
    login.refresh(test).map_err(|error| chain(&*error))
}

fn client_config_with(options: &Options, login: &[Property]) -> ClientConfig {
    tool_lines::remember(options);
    let mut config = ClientConfig::new();
    for (key, value) in DEFAULTS {
        config.set(key, value);
    }
    for (key, value) in &options.properties {
        config.set(key, value.expose());
    }
    for (key, value) in login {
        config.set(key, value.expose());
    }
    for (key, value) in GUARANTEES {
        config.set(key, value);
    }
    config.set("bootstrap.servers", &options.bootstrap_servers);
    if let Some(tokens) = &options.tokens {
        token_callback::install(tokens, &mut config);
    }
    config
}
