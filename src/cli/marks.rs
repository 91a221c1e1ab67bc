//! The names of columns in which programs that poll an outbox keep what they have sent, as [`plain`] has them.

/// Of a time.
pub(super) const TIMES: [&str; 14] = [
    "publishedat",
    "processedat",
    "sentat",
    "dispatchedat",
    "deliveredat",
    "relayedat",
    "forwardedat",
    "emittedat",
    "completiondate",
    "publishedon",
    "processedon",
    "processedonutc",
    "processeddate",
    "senton",
];

/// Of a boolean or a number.
pub(super) const FLAGS: [&str; 8] =
    ["sent", "published", "processed", "dispatched", "delivered", "issent", "ispublished", "isprocessed"];

/// Of a word or a number, of which only the program knows the meaning.
pub(super) const STATES: [&str; 2] = ["status", "state"];

/// A column's name as names are compared: `publishedAt` and `published_at` are one.
pub(super) fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}
