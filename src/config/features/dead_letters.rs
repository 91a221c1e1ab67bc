//! The dead-letter topic.

use crate::config::read::Reader;
use crate::relay::DeadLetterOptions;

const TOPIC: &str = "errors.deadletterqueue.topic.name";
const CONTEXT_HEADERS: &str = "errors.deadletterqueue.context.headers.enable";

/// Default limit of the keys that follow dead letters: about 1 MB of them.
const KEYS_MAX_DEFAULT: usize = 10_000;

/// Reads the options. Returns `None` if events that cannot be sent stop the relay or are skipped.
pub(in crate::config) fn options(reader: &mut Reader<'_>, connector_name: &str) -> Option<DeadLetterOptions> {
    let context_headers = reader.boolean(CONTEXT_HEADERS, false);
    let follow_key = reader.boolean("outboxd.deadletterqueue.follow.key", false);
    let keys_max = reader.integer("outboxd.deadletterqueue.keys.max", 1..=10_000_000, KEYS_MAX_DEFAULT);
    let topic = reader.filled(TOPIC)?.to_owned();
    let tolerates =
        reader.text("errors.tolerance").is_some_and(|said| said.trim().eq_ignore_ascii_case("all"));
    if !tolerates {
        reader.assume(
            TOPIC,
            "nothing goes there, because errors.tolerance is not all: what cannot be sent stops the relay",
        );
        return None;
    }
    if reader.text(CONTEXT_HEADERS).is_none() {
        reader.assume(
            CONTEXT_HEADERS,
            "false by default, as in Kafka Connect: dead letters have neither their reason nor their origin. With true their headers have both",
        );
    }
    let connector_name = connector_name.to_owned();
    Some(DeadLetterOptions {
        topic,
        context_headers,
        connector_name,
        follow_key,
        keys_max,
        keeps_values: false,
    })
}
