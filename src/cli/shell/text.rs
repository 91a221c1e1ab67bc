//! Text from elsewhere, in a form that may be shown.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Escapes control characters: a header must not move the cursor or begin a line.
pub(in crate::cli) fn clean(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// Returns whether bytes are a text: as it is, or as the JSON converter writes a string, without and with a
/// schema.
pub(in crate::cli) fn says(bytes: &[u8], text: &str) -> bool {
    if bytes == text.as_bytes() {
        return true;
    }
    let quoted = Value::from(text).to_string();
    bytes == quoted.as_bytes() || bytes.ends_with(format!("\"payload\":{quoted}}}").as_bytes())
}

/// Aligns columns, each as wide as its contents, the last one unpadded.
pub(in crate::cli) fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Returns bytes for people.
pub(in crate::cli) fn shown(bytes: Option<&[u8]>) -> String {
    match bytes.map(std::str::from_utf8) {
        None => "null".to_owned(),
        Some(Ok(text)) => clean(text),
        Some(Err(_)) => format!("{} bytes, base64 {}", bytes.map_or(0, <[u8]>::len), encoded(bytes)),
    }
}

/// Returns bytes in JSON: null, a text, or `{"base64": …}` for what is not UTF-8.
pub(in crate::cli) fn object(bytes: Option<&[u8]>) -> Value {
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

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned);
        let rows = [row(["A", "BB", "C"]), row(["äöü", "1", ""]), row(["", "", "x"])];
        assert_eq!(columns(&rows), "A    BB  C\näöü  1\n         x\n");
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
