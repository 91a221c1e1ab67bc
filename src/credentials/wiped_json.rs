//! JSON of an answer, whose texts are wiped from memory when it is dropped.

use std::ops::Deref;

use serde_json::Value;
use zeroize::Zeroize as _;

/// A JSON value with secrets in it.
pub(super) struct WipedJson(Value);

impl WipedJson {
    /// Reads a text; None if it is not JSON.
    pub(super) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().map(Self)
    }
}

impl Deref for WipedJson {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl Drop for WipedJson {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

/// Wipes each text. The nesting of what was parsed is limited.
fn wipe(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(items) => items.iter_mut().for_each(wipe),
        Value::Object(members) => members.values_mut().for_each(wipe),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_wiped() {
        let mut json = WipedJson::parse(r#"{"token":"s3cret","status":[{"password":"s3cret"},7]}"#).unwrap();
        wipe(&mut json.0);
        assert_eq!(json.to_string(), r#"{"token":"","status":[{"password":""},7]}"#);
        assert!(WipedJson::parse("{").is_none());
    }
}
