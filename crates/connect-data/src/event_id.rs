//! Ids of events in the forms of converters and headers.

use serde_json::Value;

/// Returns an id as text, from the text itself or from the JSON converter's output with or without a schema. `None` if
/// it is not UTF-8, or the payload is neither a string nor a number.
pub fn plain_id(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    if !text.starts_with(['"', '{']) {
        return Some(text.to_owned());
    }
    match serde_json::from_str(text) {
        Ok(Value::String(id)) => Some(id),
        Ok(Value::Object(mut members)) => match members.remove("payload") {
            Some(Value::String(id)) => Some(id),
            Some(Value::Number(id)) => Some(id.to_string()),
            _ => None,
        },
        _ => Some(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_is_read_however_it_was_converted() {
        let cases = [
            ("7f", Some("7f")),
            ("42", Some("42")),
            ("\"7f\"", Some("7f")),
            ("{\"schema\":{\"type\":\"string\"},\"payload\":\"7f\"}", Some("7f")),
            ("{\"schema\":{},\"payload\":42}", Some("42")),
            ("{\"a\":1}", None),
            ("{not JSON", Some("{not JSON")),
        ];
        for (text, id) in cases {
            assert_eq!(plain_id(text.as_bytes()).as_deref(), id, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_header_is_read_or_none(bytes: Vec<u8>) {
            drop(plain_id(&bytes));
        }
    }
}
