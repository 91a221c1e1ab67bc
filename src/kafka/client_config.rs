//! The configuration of librdkafka's clients, with the settings that no option may override.

use rdkafka::ClientConfig;

use super::login::Login;
use super::options::Options;
use super::{token_callback, tool_lines};

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
    tool_lines::remember(options);
    let mut config = ClientConfig::new();
    for (key, value) in DEFAULTS {
        config.set(key, value);
    }
    for (key, value) in &options.properties {
        config.set(key, value.expose());
    }
    // What its files have now.
    for (key, value) in options.login.iter().flat_map(Login::properties) {
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
