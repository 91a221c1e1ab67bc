//! What others wrote, as it may be shown.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Without control characters: a header must not move the cursor or begin a line.
pub(super) fn clean(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// Bytes for people.
pub(super) fn shown(bytes: Option<&[u8]>) -> String {
    match bytes.map(std::str::from_utf8) {
        None => "null".to_owned(),
        Some(Ok(text)) => clean(text),
        Some(Err(_)) => format!("{} bytes, base64 {}", bytes.map_or(0, <[u8]>::len), encoded(bytes)),
    }
}

/// Bytes in JSON: null, a text, or `{"base64": …}` for what is not UTF-8.
pub(super) fn object(bytes: Option<&[u8]>) -> Value {
    match bytes.map(std::str::from_utf8) {
        None => Value::Null,
        Some(Ok(text)) => Value::from(text),
        Some(Err(_)) => json!({ "base64": encoded(bytes) }),
    }
}

fn encoded(bytes: Option<&[u8]>) -> String {
    STANDARD.encode(bytes.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(value: &Value) -> Option<Vec<u8>> {
        match value {
            Value::Null => None,
            Value::String(text) => Some(text.as_bytes().to_vec()),
            other => Some(STANDARD.decode(other["base64"].as_str().unwrap()).unwrap()),
        }
    }

    proptest! {
        #[test]
        fn bytes_come_back_from_json(original in any::<Option<Vec<u8>>>()) {
            prop_assert_eq!(bytes(&object(original.as_deref())), original);
        }

        #[test]
        fn nothing_shown_moves_the_cursor(original in any::<Vec<u8>>()) {
            prop_assert!(!shown(Some(&original)).contains(char::is_control));
        }
    }
}
