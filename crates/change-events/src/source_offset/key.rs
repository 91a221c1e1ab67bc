//! Keys of stored offsets.

use std::fmt;

use connect_data::converter::json_text::{NonBmp, write_string};

/// Key under which an offset is stored. Connect compares keys byte by byte, so the bytes are exactly those that Connect
/// writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetKey(Vec<u8>);

impl OffsetKey {
    /// Creates the key of a connector's offset from `name` (Debezium Server: the type of its sink) and `topic.prefix`.
    #[must_use]
    pub fn new(connector: &str, topic_prefix: &str) -> Self {
        let mut bytes = vec![b'['];
        write_string(&mut bytes, connector, NonBmp::Escaped);
        bytes.extend(b",{\"server\":");
        write_string(&mut bytes, topic_prefix, NonBmp::Escaped);
        bytes.extend(b"}]");
        Self(bytes)
    }

    /// Returns the bytes as they are stored.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for OffsetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_are_those_that_connect_writes() {
        let cases = [
            ("orders-outbox", "orders", r#"["orders-outbox",{"server":"orders"}]"#),
            ("kafka", "srv", r#"["kafka",{"server":"srv"}]"#),
            ("a \"b\" \\ ä", "s", r#"["a \"b\" \\ ä",{"server":"s"}]"#),
            ("tab\t\u{1f}", "s", r#"["tab\t\u001F",{"server":"s"}]"#),
        ];
        for (connector, server, expected) in cases {
            assert_eq!(OffsetKey::new(connector, server).to_string(), expected);
        }
    }

    proptest! {
        #[test]
        fn a_key_holds_both_names(connector: String, server: String) {
            let key: serde_json::Value = serde_json::from_slice(OffsetKey::new(&connector, &server).as_bytes()).unwrap();
            prop_assert_eq!(key, serde_json::json!([connector, { "server": server }]));
        }
    }
}
